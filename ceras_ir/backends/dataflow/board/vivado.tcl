# Synthesize, place and route the circuit out of context. The exit status is 1 if timing fails.
#   vivado -mode batch -source vivado.tcl [-tclargs PART]
# No version of Vivado has run this script yet.
set part "@PART@"
if {[llength $argv] > 0} { set part [lindex $argv 0] }
if {$part eq ""} {
  puts "error: the board has no part: give it after -tclargs, for example xc7z020clg400-1"
  exit 1
}
# $readmemh finds memory contents in the current folder.
cd [file dirname [file normalize [info script]]]
read_verilog -sv [glob *.sv]
read_xdc -mode out_of_context pipeline.xdc
synth_design -top @TOP@ -part $part -mode out_of_context
opt_design
place_design
phys_opt_design
route_design
report_timing_summary -file timing.txt
report_utilization -file utilization.txt
write_checkpoint -force @TOP@.dcp
set failed 0
foreach check {setup hold} {
  set paths [get_timing_paths -$check -max_paths 1]
  if {[llength $paths] == 0} {
    puts "error: no path has a $check constraint"
    exit 1
  }
  set slack [get_property SLACK [lindex $paths 0]]
  puts "$check: slack of the slowest path $slack ns at @MHZ@ MHz"
  if {$slack < 0} { set failed 1 }
}
if {$failed} {
  puts "error: timing fails; timing.txt has the paths. Use a slower clock, or fewer lanes (--dsp)"
  exit 1
}
