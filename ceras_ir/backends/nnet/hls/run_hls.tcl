# Vitis HLS: simulate on the golden data, then synthesize the top function.
set part [expr {[info exists ::env(PART)] ? $::env(PART) : "xczu7ev-ffvc1156-2-e"}]
open_project -reset ceras_fpga
set_top ceras_fpga
add_files {fpga_linear.cpp fpga_circuits.cpp fpga_depthwise.cpp fpga_movement.cpp network.cpp top.cpp} -cflags "-std=c++17"
add_files -tb testbench.cpp -cflags "-std=c++17"
open_solution -reset solution
set_part $part
create_clock -period 5
csim_design -argv [pwd]
csynth_design
exit
