/* Start a stream and wait for its end, through the registers of either design of VTA. */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>

#include "vta.h"

/* HLS: four modules on separate pages. The first word of a module is the HLS control word. */
enum {
  FETCH = 0x0000,
  LOAD = 0x1000,
  COMPUTE = 0x2000,
  STORE = 0x3000,
  HLS_BYTES = 0x4000,
  CONTROL = 0x00,
  START = 0x01,
  IDLE = 0x04,
  START_AND_RESTART = 0x81,
  FETCH_COUNT = 0x10,
  FETCH_ADDRESS = 0x18,
  LOAD_INPUTS = 0x10,
  LOAD_WEIGHTS = 0x18,
  COMPUTE_DONE = 0x18,
  COMPUTE_UOPS = 0x20,
  COMPUTE_BIASES = 0x28,
  STORE_OUTPUTS = 0x10
};

/* Chisel: one block with six pointers at CHISEL_POINTERS; the first one is for instructions. */
enum {
  CHISEL_CONTROL = 0x00,
  CHISEL_LAUNCH = 0x01,
  CHISEL_FINISHED = 0x02,
  CHISEL_CYCLES = 0x04,
  CHISEL_COUNT = 0x08,
  CHISEL_POINTERS = 0x0c,
  CHISEL_LAST_POINTER = 0x20,
  CHISEL_BYTES = 0x1000
};

static DeviceRegisters registers;
static VtaFlow flow;
static uint64_t timeout_ns;

static void write_register(unsigned offset, uint32_t value)
{
  device_write(&registers, offset, value);
}

static uint32_t read_register(unsigned offset) { return device_read(&registers, offset); }

/* Wait until (register & mask) == value. */
static int wait_for(unsigned offset, uint32_t mask, uint32_t value)
{
  uint64_t start = device_now();
  while ((read_register(offset) & mask) != value) {
    if (device_now() - start > timeout_ns) return 1;
    sched_yield();
  }
  return 0;
}

static int timed_out(const char *name, const char *what)
{
  unsigned long milliseconds = (unsigned long)(timeout_ns / 1000000u);
  if (flow == VTA_HLS)
    return device_fail("%s: %s within %lu ms (fetch 0x%lx, load 0x%lx, compute 0x%lx, store 0x%lx, "
                    "done 0x%lx); check bitstream and addresses, and load the bitstream again",
                    name, what, milliseconds, (unsigned long)read_register(FETCH + CONTROL),
                    (unsigned long)read_register(LOAD + CONTROL),
                    (unsigned long)read_register(COMPUTE + CONTROL),
                    (unsigned long)read_register(STORE + CONTROL),
                    (unsigned long)read_register(COMPUTE + COMPUTE_DONE));
  return device_fail("%s: %s within %lu ms (control 0x%lx, count 0x%lx); check bitstream and "
                  "addresses, and load the bitstream again",
                  name, what, milliseconds, (unsigned long)read_register(CHISEL_CONTROL),
                  (unsigned long)read_register(CHISEL_COUNT));
}

int vta_map_registers(const VtaSettings *settings)
{
  if (settings->registers == 0)
    return device_fail("the board's configuration has no DRIVER_REGISTERS: name them");
  size_t bytes = settings->flow == VTA_HLS ? HLS_BYTES : CHISEL_BYTES;
  if (device_map_registers(&registers, settings->register_file, settings->registers, bytes))
    return 1;
  flow = settings->flow;
  timeout_ns = (uint64_t)settings->timeout_ms * 1000000u;
  if (flow == VTA_HLS) {
    write_register(LOAD + LOAD_INPUTS, 0);
    write_register(LOAD + LOAD_WEIGHTS, 0);
    write_register(COMPUTE + COMPUTE_UOPS, 0);
    write_register(COMPUTE + COMPUTE_BIASES, 0);
    write_register(STORE + STORE_OUTPUTS, 0);
    write_register(LOAD + CONTROL, START_AND_RESTART);
    write_register(COMPUTE + CONTROL, START_AND_RESTART);
    write_register(STORE + CONTROL, START_AND_RESTART);
  } else {
    for (unsigned at = CHISEL_POINTERS; at <= CHISEL_LAST_POINTER; at += 4) write_register(at, 0);
  }
  return 0;
}

void vta_unmap_registers(void) { device_unmap_registers(&registers); }

static int fetch(uint64_t instructions, uint32_t count, const char *name)
{
  if (wait_for(FETCH + CONTROL, START | IDLE, IDLE))
    return timed_out(name, "fetch did not become idle");
  write_register(FETCH + FETCH_COUNT, count);
  write_register(FETCH + FETCH_ADDRESS, (uint32_t)instructions);
  device_barrier();
  write_register(FETCH + CONTROL, START);
  return 0;
}

/* `done` remains 1 after the last stream until compute starts an instruction, which can be late
 * because compute pops tokens first. A no-op without tokens clears it, so that a 1 belongs to this
 * stream. */
static int run_hls(uint64_t instructions, uint32_t count, uint64_t no_op, const char *name)
{
  if (read_register(COMPUTE + COMPUTE_DONE) & 1) {
    if (fetch(no_op, 1, name)) return 1;
    if (wait_for(COMPUTE + COMPUTE_DONE, 1, 0)) return timed_out(name, "done was not cleared");
  }
  if (fetch(instructions, count, name)) return 1;
  if (wait_for(COMPUTE + COMPUTE_DONE, 1, 1)) return timed_out(name, "not done");
  return 0;
}

static int run_chisel(uint64_t instructions, uint32_t count, const char *name)
{
  write_register(CHISEL_CYCLES, 0);
  write_register(CHISEL_COUNT, count);
  write_register(CHISEL_POINTERS, (uint32_t)instructions);
  device_barrier();
  write_register(CHISEL_CONTROL, CHISEL_LAUNCH);
  if (wait_for(CHISEL_CONTROL, CHISEL_FINISHED, CHISEL_FINISHED))
    return timed_out(name, "not finished");
  return 0;
}

int vta_start_and_wait(uint64_t instructions, uint32_t count, uint64_t no_op, const char *name)
{
  int failed = flow == VTA_HLS ? run_hls(instructions, count, no_op, name)
                               : run_chisel(instructions, count, name);
  device_barrier();
  return failed;
}

uint32_t vta_cycle_counter(void) { return flow == VTA_CHISEL ? read_register(CHISEL_CYCLES) : 0; }
