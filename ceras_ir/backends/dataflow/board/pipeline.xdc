# Constraints of the circuit for Vivado, out of context. In a design, the clock comes from outside.
create_clock -name clk -period @PERIOD@ [get_ports clk]
# Quasi-static: these bits are set once after a reset, and software reads them.
set_false_path -to [get_ports input_errors*]
