# Compile the circuit with virtual pins. The exit status is 1 if timing fails.
#   quartus_sh -t quartus.tcl FAMILY DEVICE        for example "Cyclone V" 5CSEMA5F31C6
# No version of Quartus has run this script yet.
cd [file dirname [file normalize [info script]]]
set arguments $quartus(args)
if {[lindex $arguments 0] eq "check"} {
  # In quartus_sta: compare the slack of the slowest paths with zero.
  project_open @TOP@
  create_timing_netlist
  read_sdc pipeline.sdc
  update_timing_netlist
  set failed 0
  foreach check {setup hold} {
    set found 0
    foreach_in_collection path [get_timing_paths -$check -npaths 1] {
      set found 1
      set slack [get_path_info $path -slack]
      puts "$check: slack of the slowest path $slack ns at @MHZ@ MHz"
      if {$slack < 0} { set failed 1 }
    }
    if {!$found} { set failed 1 }
  }
  delete_timing_netlist
  project_close
  qexit [expr {$failed ? "-error" : "-success"}]
}
if {[llength $arguments] != 2} {
  puts "error: give the family and the device, for example \"Cyclone V\" 5CSEMA5F31C6"
  qexit -error
}
load_package flow
project_new @TOP@ -overwrite
set_global_assignment -name FAMILY [lindex $arguments 0]
set_global_assignment -name DEVICE [lindex $arguments 1]
set_global_assignment -name TOP_LEVEL_ENTITY @TOP@
foreach file [glob *.sv] { set_global_assignment -name SYSTEMVERILOG_FILE $file }
set_global_assignment -name SDC_FILE pipeline.sdc
set_instance_assignment -name VIRTUAL_PIN ON -to *
set_instance_assignment -name VIRTUAL_PIN OFF -to clk
execute_flow -compile
project_close
# The exit status of quartus_sta is an error of exec.
puts [exec quartus_sta -t quartus.tcl check]
qexit -success
