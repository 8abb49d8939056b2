# Build a bitstream for @BOARD@ from these sources, in Vivado:
#   vivado -mode batch -source block_design.tcl
# For another board with this processor, change the part and the name of the board files. No version of
# Vivado has run this script yet.
set part @PART@
set board_files @BOARD_FILES@
set clock_mhz @MHZ@
set registers @REGISTERS@
set here [file dirname [file normalize [info script]]]

create_project @NAME@ $here/vivado -part $part -force
set board_part [lindex [lsort -dictionary [get_board_parts -quiet $board_files:*]] end]
if {$board_part eq ""} {
  puts "note: Vivado has no board files '$board_files': the processor has no presets of the board"
} else {
  set_property board_part $board_part [current_project]
}
add_files [concat @SOURCES@]
update_compile_order -fileset sources_1

create_bd_design @NAME@_board
@PROCESSOR@
set core [create_bd_cell -type module -reference @NAME@_axi core]
set reset [create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset]
set control [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect control]
set memory [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect memory]
set_property CONFIG.NUM_SI 1 $control
set_property CONFIG.NUM_SI 1 $memory

connect_bd_net [get_bd_pins ps/@CLOCK_PIN@] [get_bd_pins core/aclk] [get_bd_pins control/aclk] \
    [get_bd_pins memory/aclk] [get_bd_pins reset/slowest_sync_clk] \
    [get_bd_pins ps/@CONTROL_CLOCK@] [get_bd_pins ps/@MEMORY_CLOCK@]
connect_bd_net [get_bd_pins ps/@RESET_PIN@] [get_bd_pins reset/ext_reset_in]
connect_bd_net [get_bd_pins reset/peripheral_aresetn] [get_bd_pins core/aresetn] \
    [get_bd_pins control/aresetn] [get_bd_pins memory/aresetn]
connect_bd_intf_net [get_bd_intf_pins ps/@CONTROL_PORT@] [get_bd_intf_pins control/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins control/M00_AXI] [get_bd_intf_pins core/s_axi]
connect_bd_intf_net [get_bd_intf_pins core/m_axi] [get_bd_intf_pins memory/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins memory/M00_AXI] [get_bd_intf_pins ps/@MEMORY_PORT@]
connect_bd_net [get_bd_pins core/irq] [get_bd_pins ps/@INTERRUPT_PIN@]

assign_bd_address
set_property offset $registers [get_bd_addr_segs -of_objects [get_bd_addr_spaces ps/Data]]
set_property range 4K [get_bd_addr_segs -of_objects [get_bd_addr_spaces ps/Data]]
validate_bd_design
save_bd_design

make_wrapper -files [get_files @NAME@_board.bd] -top -import
set_property top @NAME@_board_wrapper [current_fileset]
launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_run impl_1
open_run impl_1
report_timing_summary -file $here/timing.txt
report_utilization -file $here/utilization.txt
foreach check {setup hold} {
  set slack [get_property SLACK [lindex [get_timing_paths -$check -max_paths 1] 0]]
  puts "$check: slack of the slowest path $slack ns at $clock_mhz MHz"
  if {$slack < 0} {
    puts "error: timing fails; timing.txt has the paths. Reduce clock_mhz"
    exit 1
  }
}
write_hw_platform -fixed -include_bit -force $here/@NAME@.xsa
