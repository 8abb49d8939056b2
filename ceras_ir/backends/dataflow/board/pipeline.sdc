# Constraints of the circuit for Quartus and other tools that read SDC.
create_clock -name clk -period @PERIOD@ [get_ports clk]
derive_clock_uncertainty
# Quasi-static: these bits are set once after a reset, and software reads them.
set_false_path -to [get_ports input_errors*]
