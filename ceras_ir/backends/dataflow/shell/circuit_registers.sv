// The registers of a circuit with a memory port. The header of the driver is generated from this file.
package circuit_registers;
  // The indices of words of 32 bits on the AXI4-Lite port.
  localparam CONTROL = 0;  // write: bit 0 starts a launch, 1 ends it and resets the circuit; read: bit 0 busy, 1 done since the start, 2 idle
  localparam STATUS = 1;  // read only; the last launch: bit 0 read error, 1 write error, 2 reset, 3 rejected registers, 4 short packet, 5 long packet, 6 wrong end of an output frame
  localparam ENABLE = 2;  // bit 0: the interrupt
  localparam PENDING = 3;  // bit 0: the interrupt; writing 1 clears it
  localparam INPUT_ADDRESS = 4;  // the low half; addresses are multiples of BUILT_BUS_BYTES
  localparam INPUT_ADDRESS_HIGH = 5;  // bits 7:0
  localparam INPUT_BYTES = 6;  // frames, one after the other; a multiple of BUILT_BUS_BYTES
  localparam FRAMES_SENT = 7;  // read only; packets that the circuit has received since the start; 0 after a failure
  localparam FRAMES_WRITTEN = 8;  // read only; frames that all outputs have passed to the memory port since the start; 0 after a failure
  localparam CYCLES = 9;  // read only; cycles of the last launch
  localparam IDENTITY = 10;  // read only; the version of the registers
  localparam CONFIGURATION = 11;  // read only; the hash of the circuit
  localparam BUILT_BUS_BYTES = 12;  // read only
  localparam BUILT_OUTPUTS = 13;  // read only
  localparam BUILT_INPUT_BYTES = 14;  // read only; bytes of a frame of the input
  localparam OUTPUTS = 16;  // the first output: address, high half (bits 7:0), bytes of a frame (read only), 0
  localparam OUTPUT_WORDS = 4;  // words of an output

  localparam VERSION = 1145460481;  // of these registers: DFW and 1; the value of IDENTITY
  localparam PAGE_BYTES = 4096;  // bytes of addresses
  localparam MAX_OUTPUTS = 64;

  // Bits of CONTROL.
  localparam START = 0;
  localparam RESET = 1;
  localparam BUSY = 0;
  localparam DONE = 1;
  localparam IDLE = 2;
  // Bits of STATUS.
  localparam READ_FAILED = 0;
  localparam WRITE_FAILED = 1;
  localparam ABORTED = 2;
  localparam REJECTED = 3;
  localparam SHORT_PACKET = 4;
  localparam LONG_PACKET = 5;
  localparam WRONG_END = 6;
  localparam STATUS_BITS = 7;
endpackage
