# Build a bitstream for the ZCU104 from these sources, in Vivado:
#   vivado -mode batch -source block_design.tcl
# For another Zynq UltraScale+ board, change the part and the board part (if the PS has presets). This
# script has not been run yet.
set part xczu7ev-ffvc1156-2-e
set board_part xilinx.com:zcu104:part0:1.1
set clock_mhz 200
set registers 0xA0000000
set here [file dirname [file normalize [info script]]]

create_project nnet $here/vivado -part $part -force
set_property board_part $board_part [current_project]
add_files [concat [glob $here/*.sv] $here/nnet_axi.v]
update_compile_order -fileset sources_1

create_bd_design nnet_board
set ps [create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e ps]
apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e -config {apply_board_preset 1} $ps
# Registers are on the first master port. Memory is on HP0, which is not coherent.
set_property -dict [list \
    CONFIG.PSU__USE__M_AXI_GP0 1 CONFIG.PSU__USE__M_AXI_GP1 0 CONFIG.PSU__USE__M_AXI_GP2 0 \
    CONFIG.PSU__USE__S_AXI_GP2 1 CONFIG.PSU__SAXIGP2__DATA_WIDTH [expr {8 * @BUS_BYTES@}] \
    CONFIG.PSU__USE__IRQ0 1 CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $clock_mhz] $ps

set core [create_bd_cell -type module -reference nnet_axi core]
set_property -dict [list CONFIG.LANES @LANES@ CONFIG.BUS_BYTES @BUS_BYTES@ \
    CONFIG.LINE_BYTES @LINE_BYTES@ CONFIG.RESULT_BYTES @RESULT_BYTES@ CONFIG.PAIRED @PAIRED@ \
    CONFIG.TABLES @TABLES@] $core
set reset [create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset]
set control [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect control]
set memory [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect memory]
set_property CONFIG.NUM_SI 1 $control
set_property CONFIG.NUM_SI 1 $memory

connect_bd_net [get_bd_pins ps/pl_clk0] [get_bd_pins core/aclk] [get_bd_pins control/aclk] \
    [get_bd_pins memory/aclk] [get_bd_pins reset/slowest_sync_clk] \
    [get_bd_pins ps/maxihpm0_fpd_aclk] [get_bd_pins ps/saxihp0_fpd_aclk]
connect_bd_net [get_bd_pins ps/pl_resetn0] [get_bd_pins reset/ext_reset_in]
connect_bd_net [get_bd_pins reset/peripheral_aresetn] [get_bd_pins core/aresetn] \
    [get_bd_pins control/aresetn] [get_bd_pins memory/aresetn]
connect_bd_intf_net [get_bd_intf_pins ps/M_AXI_HPM0_FPD] [get_bd_intf_pins control/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins control/M00_AXI] [get_bd_intf_pins core/s_axi]
connect_bd_intf_net [get_bd_intf_pins core/m_axi] [get_bd_intf_pins memory/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins memory/M00_AXI] [get_bd_intf_pins ps/S_AXI_HP0_FPD]
connect_bd_net [get_bd_pins core/irq] [get_bd_pins ps/pl_ps_irq0]

assign_bd_address
set_property offset $registers [get_bd_addr_segs -of_objects [get_bd_addr_spaces ps/Data]]
set_property range 4K [get_bd_addr_segs -of_objects [get_bd_addr_spaces ps/Data]]
validate_bd_design
save_bd_design

make_wrapper -files [get_files nnet_board.bd] -top -import
set_property top nnet_board_wrapper [current_fileset]
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
write_hw_platform -fixed -include_bit -force $here/nnet.xsa
