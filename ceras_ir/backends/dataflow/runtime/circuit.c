/* A network with its circuit: memory, launches and cache maintenance. */
#define _POSIX_C_SOURCE 200809L
#include "circuit.h"

#include <string.h>
#include <unistd.h>

#include "../circuit_frames.h"
#include "../model.h"
#include "circuit_registers.h"

enum { PAGE = 4096 };

static struct {
  CircuitMemory memory;
  CircuitSettings settings;
  DeviceRegisters registers;
  int interrupt;
  uint32_t capacity; /* frames of a launch */
  uint32_t frames, cycles;
  uint64_t nanoseconds;
  int is_open, hangs, status;
} circuit;

static union {
  double alignment;
  unsigned char bytes[MODEL_ARENA_BYTES + MODEL_ARENA_ALIGNMENT];
} arena;

static int failed(CircuitStatus status)
{
  circuit.status = (int)status;
  return (int)status;
}

const char *circuit_error(void) { return device_error(); }

static uint32_t get(unsigned word) { return device_read(&circuit.registers, 4 * word); }

static void put(unsigned word, uint32_t value)
{
  device_write(&circuit.registers, 4 * word, value);
}

static uint64_t whole_pages(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static uint64_t input_frame(void) { return CIRCUIT_INPUT_BYTES / circuit_input.frames; }

static uint64_t output_frame(size_t port)
{
  return CIRCUIT_OUTPUT_BYTES(port) / circuit_outputs[port].frames;
}

/* The streams are on separate pages: the input, then the outputs. */
static uint64_t output_offset(size_t port, uint64_t frames)
{
  uint64_t offset = whole_pages(frames * input_frame());
  for (size_t i = 0; i < port; i++) offset += whole_pages(frames * output_frame(i));
  return offset;
}

uint64_t circuit_memory_bytes(uint32_t frames)
{
  return output_offset(CIRCUIT_OUTPUTS, frames ? frames : (uint64_t)circuit_input.frames);
}

static int is_idle(void *context)
{
  (void)context;
  return (get(REGISTER_CONTROL) & (BIT_BUSY | BIT_IDLE)) == BIT_IDLE;
}

/* End a launch and reset the circuit. Return 1 if it does not become idle. */
static int reset(void)
{
  put(REGISTER_CONTROL, BIT_RESET);
  circuit.hangs = device_wait(is_idle, NULL, -1, circuit.settings.timeout_ms) != 0;
  return circuit.hangs;
}

static int check_memory(const CircuitMemory *memory)
{
  if (memory->size < circuit_memory_bytes(0))
    return device_fail("%llu bytes of contiguous memory, the network needs %llu",
                       (unsigned long long)memory->size,
                       (unsigned long long)circuit_memory_bytes(0));
  if ((uintptr_t)memory->data % PAGE != 0 || memory->address % PAGE != 0)
    return device_fail("the memory must begin at a multiple of %d bytes, got address 0x%llx", PAGE,
                       (unsigned long long)memory->address);
  if ((memory->address + memory->size) >> 40)
    return device_fail("the memory ends at 0x%llx; the circuit reaches addresses below 2^40",
                       (unsigned long long)(memory->address + memory->size));
  return 0;
}

static int check_bitstream(void)
{
  unsigned long found = get(REGISTER_IDENTITY);
  if (found != REGISTER_VERSION) {
    device_fail("no circuit at 0x%llx: the identity reads 0x%lx, expected 0x%lx; load the "
                "bitstream, or correct the address of the registers",
                (unsigned long long)circuit.settings.registers, found,
                (unsigned long)REGISTER_VERSION);
    return failed(CIRCUIT_WRONG_BITSTREAM);
  }
  found = get(REGISTER_CONFIGURATION);
  if (found != circuit_network.configuration) {
    device_fail("the bitstream has the circuit 0x%08lx, this network needs 0x%08lx: load the "
                "bitstream that was built from this folder",
                found, (unsigned long)circuit_network.configuration);
    return failed(CIRCUIT_WRONG_BITSTREAM);
  }
  return 0;
}

int circuit_open(const CircuitSettings *settings, const CircuitMemory *memory)
{
  if (circuit.is_open) return device_fail("a network is open already: call circuit_close first");
  if (check_memory(memory)) return failed(CIRCUIT_FAILED);
  circuit.memory = *memory;
  circuit.settings = *settings;
  circuit.interrupt = -1;
  if (memory->clean(memory->context, 0, memory->size)) {
    device_fail("cannot clean the caches");
    return failed(CIRCUIT_FAILED);
  }
  if (device_map_registers(&circuit.registers, settings->register_file, settings->registers,
                           REGISTER_PAGE_BYTES))
    return failed(CIRCUIT_FAILED);
  if (settings->interrupt != NULL)
    circuit.interrupt = device_open_interrupt(settings->interrupt);
  circuit.is_open = 1;
  int status = settings->interrupt != NULL && circuit.interrupt < 0 ? failed(CIRCUIT_FAILED)
                                                                    : check_bitstream();
  if (status == 0 && reset()) {
    device_fail("the circuit does not become idle within %lu ms; check clock and reset, and load "
                "the bitstream again", (unsigned long)settings->timeout_ms);
    status = failed(CIRCUIT_HANGS);
  }
  if (status) {
    circuit_close();
    return status;
  }
  put(REGISTER_ENABLE, circuit.interrupt >= 0);
  uint64_t most = memory->size / input_frame();
  if (most > UINT32_MAX / input_frame()) most = UINT32_MAX / input_frame();
  while (output_offset(CIRCUIT_OUTPUTS, most) > memory->size) most--;
  circuit.capacity = (uint32_t)most;
  return 0;
}

void circuit_close(void)
{
  if (!circuit.is_open) return;
  if (circuit.interrupt >= 0) close(circuit.interrupt);
  device_unmap_registers(&circuit.registers);
  circuit.is_open = 0;
}

/* Return a status for the bits of STATUS, and store the reason. */
static int judge(uint32_t bits, uint64_t bytes)
{
  if (bits == 0) return 0;
  if (bits & (BIT_READ_FAILED | BIT_WRITE_FAILED)) {
    device_fail("the memory answered a %s of the circuit with an error: check the memory port, and "
                "the address of the buffer, 0x%llx",
                bits & BIT_READ_FAILED ? "read" : "write",
                (unsigned long long)circuit.memory.address);
    return failed(CIRCUIT_BUS_ERROR);
  }
  if (bits & BIT_REJECTED) {
    device_fail("the circuit rejected the registers: %llu bytes at 0x%llx",
                (unsigned long long)bytes, (unsigned long long)circuit.memory.address);
    return failed(CIRCUIT_REJECTED);
  }
  if (bits & BIT_SHORT_PACKET)
    device_fail("the last frame is incomplete: the input has %llu bytes, a frame has %llu",
                (unsigned long long)bytes, (unsigned long long)input_frame());
  else
    device_fail("frames of other sizes than those of the circuit (status 0x%lx): load the "
                "bitstream that was built from this folder", (unsigned long)bits);
  return failed(CIRCUIT_WRONG_FRAME);
}

static int timed_out(void)
{
  unsigned long limit = circuit.settings.timeout_ms, sent = get(REGISTER_FRAMES_SENT),
                written = get(REGISTER_FRAMES_WRITTEN);
  int hangs = reset();
  device_fail("not done within %lu ms: %lu frames sent, %lu written; %s", limit, sent, written,
              hangs ? "a reset does not end either: check clock and memory port, and load the "
                      "bitstream again"
                    : "the launch was ended; increase the timeout, or check the memory port");
  return failed(hangs ? CIRCUIT_HANGS : CIRCUIT_TIMEOUT);
}

/* Run a launch with `bytes` bytes at the start of the memory; outputs have room for `frames`. */
static int launch(uint64_t bytes, uint64_t frames)
{
  const CircuitMemory *memory = &circuit.memory;
  if (circuit.hangs) {
    device_fail("the circuit hangs: load the bitstream again, then circuit_close and circuit_open");
    return failed(CIRCUIT_HANGS);
  }
  if (memory->clean(memory->context, 0, bytes)) {
    device_fail("cannot clean the caches before a launch");
    return failed(CIRCUIT_FAILED);
  }
  uint64_t start = device_now();
  put(REGISTER_INPUT_ADDRESS, (uint32_t)memory->address);
  put(REGISTER_INPUT_ADDRESS_HIGH, (uint32_t)(memory->address >> 32));
  put(REGISTER_INPUT_BYTES, (uint32_t)bytes);
  for (size_t port = 0; port < CIRCUIT_OUTPUTS; port++) {
    uint64_t address = memory->address + output_offset(port, frames);
    unsigned word = REGISTER_OUTPUTS + REGISTER_OUTPUT_WORDS * (unsigned)port;
    put(word, (uint32_t)address);
    put(word + 1, (uint32_t)(address >> 32));
  }
  device_barrier();
  put(REGISTER_CONTROL, BIT_START);
  int waited = device_wait(is_idle, NULL, circuit.interrupt, circuit.settings.timeout_ms);
  if (waited < 0) return failed(CIRCUIT_FAILED);
  if (waited > 0) return timed_out();
  if (circuit.interrupt >= 0) put(REGISTER_PENDING, 1);
  device_barrier();
  circuit.nanoseconds = device_now() - start;
  circuit.frames = get(REGISTER_FRAMES_SENT);
  circuit.cycles = get(REGISTER_CYCLES);
  int status = judge(get(REGISTER_STATUS), bytes);
  uint64_t first = output_offset(0, frames), end = output_offset(CIRCUIT_OUTPUTS, frames);
  if (memory->invalidate(memory->context, first, end - first)) {
    device_fail("cannot invalidate the caches after a launch");
    return failed(CIRCUIT_FAILED);
  }
  return status;
}

/* Run the circuit on the arena; the host part calls this function. */
int model_launch(int number, void *values)
{
  (void)number; /* a network has a single circuit */
  circuit_pack_input(values, circuit.memory.data);
  if (launch(CIRCUIT_INPUT_BYTES, circuit_input.frames)) return 1;
  for (size_t port = 0; port < CIRCUIT_OUTPUTS; port++)
    circuit_unpack_output(port, circuit.memory.data + output_offset(port, circuit_input.frames),
                          values);
  return 0;
}

static int begin(void)
{
  device_clear_error();
  circuit.status = 0;
  if (circuit.is_open) return 0;
  device_fail("no network is open: call circuit_open first");
  return failed(CIRCUIT_FAILED);
}

int circuit_run(const void *const *inputs, void *const *outputs)
{
  if (begin()) return circuit.status;
  size_t past = (uintptr_t)arena.bytes % MODEL_ARENA_ALIGNMENT;
  void *aligned = arena.bytes + (past ? MODEL_ARENA_ALIGNMENT - past : 0);
  int status = circuit_network.run(aligned, inputs, outputs);
  if (circuit.status) return circuit.status;
  if (status == 0) return 0;
  device_fail("model_run_in returned %d", status);
  return failed(CIRCUIT_FAILED);
}

int circuit_transfer(const void *input, size_t bytes, void *const *outputs)
{
  if (begin()) return circuit.status;
  const unsigned char *from = (const unsigned char *)input;
  uint64_t frame = input_frame(), done = 0;
  for (uint64_t left = bytes; left > 0;) {
    uint64_t most = circuit.capacity * frame, now = left < most ? left : most;
    uint64_t frames = (now + frame - 1) / frame;
    memcpy(circuit.memory.data, from, (size_t)now);
    int status = launch(now, frames);
    if (status && status != CIRCUIT_WRONG_FRAME) return status;
    for (size_t port = 0; port < CIRCUIT_OUTPUTS; port++)
      memcpy((unsigned char *)outputs[port] + done * output_frame(port),
             circuit.memory.data + output_offset(port, frames),
             (size_t)(frames * output_frame(port)));
    if (status) return status;
    from += now;
    left -= now;
    done += frames;
  }
  return 0;
}

uint32_t circuit_frames(void) { return circuit.frames; }

uint32_t circuit_cycles(void) { return circuit.cycles; }

uint64_t circuit_nanoseconds(void) { return circuit.nanoseconds; }

CircuitSettings circuit_default_settings(void)
{
  CircuitSettings settings = {circuit_network.registers, "/dev/mem", NULL,
                              circuit_network.timeout_ms};
  return settings;
}

int circuit_open_udmabuf(CircuitMemory *memory, const char *name, const char *devices,
                         const char *classes)
{
  return device_open_udmabuf(memory, name, devices, classes, circuit_memory_bytes(0));
}

void circuit_close_udmabuf(CircuitMemory *memory) { device_close_udmabuf(memory); }
