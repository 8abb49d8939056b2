/* A network on VTA: memory, launches and cache maintenance. */
#define _POSIX_C_SOURCE 200809L
#include "vta.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../model.h"

enum { INSTRUCTION_BYTES = 16, MOST_LAUNCHES = 4096 };

/* A no-op of the compute module, an empty load: see vta_registers.c. */
static const unsigned char no_op[INSTRUCTION_BYTES] = {0};

static struct {
  VtaMemory memory;
  uint64_t nanoseconds[MOST_LAUNCHES];
  uint32_t cycles[MOST_LAUNCHES];
  int is_open, has_failed;
} vta;

const char *vta_error(void) { return device_error(); }

static uint64_t whole_pages(uint64_t bytes)
{
  return (bytes + VTA_PAGE - 1) / VTA_PAGE * VTA_PAGE;
}

/* Streams follow the image on separate pages, because bursts must not cross a page. The last page
 * has the no-op. */
static uint64_t stream_offset(unsigned launch)
{
  uint64_t offset = whole_pages(vta_network.dram_bytes);
  for (unsigned i = 0; i < launch; i++)
    offset += whole_pages((uint64_t)vta_network.launches[i].count * INSTRUCTION_BYTES);
  return offset;
}

uint64_t vta_memory_bytes(void) { return stream_offset(vta_network.launch_count) + VTA_PAGE; }

static int read_file(const char *folder, const char *name, unsigned char *data, uint64_t size)
{
  char path[4096];
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
    return device_fail("%s: the name of the folder is too long", name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) return device_fail("%s: %s", path, strerror(errno));
  size_t count = fread(data, 1, (size_t)size, file);
  int more = count == size && fgetc(file) != EOF;
  fclose(file);
  if (count != size || more)
    return device_fail("%s: expected %llu bytes; compile the model again and copy the whole folder",
                    path, (unsigned long long)size);
  return 0;
}

/* Transfers address DRAM in elements of their memory, with the image at address 0. Base registers
 * could add the actual address, but modules of the HLS design may latch them before an instruction
 * arrives, and the Chisel design combines them by OR. Therefore the address is added to the
 * instructions, and the registers remain 0. */
static int relocate(unsigned char *stream, uint32_t count, uint64_t address)
{
  const uint32_t units[] = {vta_network.uop_bytes, vta_network.wgt_bytes, vta_network.inp_bytes,
                            vta_network.acc_bytes, vta_network.out_bytes, vta_network.out_bytes};
  for (uint32_t i = 0; i < count; i++, stream += INSTRUCTION_BYTES) {
    uint64_t word = 0, x_size = stream[10] | (uint64_t)stream[11] << 8;
    for (int byte = 7; byte >= 0; byte--) word = word << 8 | stream[byte];
    unsigned opcode = word & 7, memory = word >> 7 & 7;
    if (opcode > 1 || x_size == 0) continue; /* not a transfer */
    if (memory >= sizeof units / sizeof units[0])
      return device_fail("instruction %lu: unknown memory %u", (unsigned long)i, memory);
    uint64_t base = (word >> 26 & 0xffffffffu) + address / units[memory];
    if (base >> 32) return device_fail("instruction %lu: beyond 4 GiB", (unsigned long)i);
    word = (word & ~((uint64_t)0xffffffffu << 26)) | base << 26;
    for (int byte = 0; byte < 8; byte++) stream[byte] = (unsigned char)(word >> (8 * byte));
  }
  return 0;
}

static int check_memory(const VtaMemory *memory)
{
  if (memory->size < vta_memory_bytes())
    return device_fail("%llu bytes of contiguous memory, the network needs %llu",
                    (unsigned long long)memory->size, (unsigned long long)vta_memory_bytes());
  if ((uintptr_t)memory->data % VTA_PAGE != 0 || memory->address % VTA_PAGE != 0)
    return device_fail("the memory must begin at a multiple of %u bytes, got address 0x%llx",
                    VTA_PAGE, (unsigned long long)memory->address);
  if ((memory->address + memory->size) >> 32)
    return device_fail("the memory ends at 0x%llx; VTA reaches the first 4 GiB only",
                    (unsigned long long)(memory->address + memory->size));
  return 0;
}

int vta_open(const char *folder, const VtaSettings *settings, const VtaMemory *memory)
{
  if (vta.is_open) return device_fail("a network is open already: call vta_close first");
  if (vta_network.launch_count > MOST_LAUNCHES)
    return device_fail("%u launches, at most %d", vta_network.launch_count, MOST_LAUNCHES);
  if (check_memory(memory)) return 1;
  vta.memory = *memory;
  unsigned char *data = memory->data;
  if (read_file(folder, vta_network.dram_file, data, vta_network.dram_bytes)) return 1;
  for (unsigned i = 0; i < vta_network.launch_count; i++) {
    const VtaLaunch *launch = &vta_network.launches[i];
    unsigned char *stream = data + stream_offset(i);
    if (read_file(folder, launch->file, stream, (uint64_t)launch->count * INSTRUCTION_BYTES))
      return 1;
    if (relocate(stream, launch->count, memory->address)) return 1;
  }
  memcpy(data + stream_offset(vta_network.launch_count), no_op, sizeof no_op);
  if (memory->clean(memory->context, 0, vta_memory_bytes()))
    return device_fail("cannot clean the caches after loading");
  if (vta_map_registers(settings)) return 1;
  vta.is_open = 1;
  vta.has_failed = 0;
  return 0;
}

void vta_close(void)
{
  if (vta.is_open) vta_unmap_registers();
  vta.is_open = 0;
}

int vta_run(const void *const *inputs, void *const *outputs)
{
  if (!vta.is_open) return device_fail("no network is open: call vta_open first");
  if (vta.has_failed)
    return device_fail("a launch has failed: load the bitstream again, then vta_close and vta_open");
  device_clear_error();
  int status = vta_network.run(vta.memory.data, inputs, outputs);
  if (status && device_error()[0] == '\0') device_fail("model_run_in returned %d", status);
  return status;
}

/* Run a launch; the host part calls this function. */
int model_launch(int number, void *arena)
{
  if (number < 0 || (unsigned)number >= vta_network.launch_count || arena != vta.memory.data)
    return device_fail("launch %d of %u, or another arena than VTA's memory", number,
                    vta_network.launch_count);
  const VtaLaunch *launch = &vta_network.launches[number];
  const VtaMemory *memory = &vta.memory;
  for (unsigned i = 0; i < launch->clean_count; i++)
    if (memory->clean(memory->context, launch->clean[i].offset, launch->clean[i].size))
      return device_fail("launch %d (%s): cannot clean the caches", number, launch->name);
  uint64_t start = device_now();
  uint64_t no_op_at = memory->address + stream_offset(vta_network.launch_count);
  if (vta_start_and_wait(memory->address + stream_offset((unsigned)number), launch->count,
                         no_op_at, launch->name)) {
    vta.has_failed = 1;
    return 1;
  }
  vta.nanoseconds[number] = device_now() - start;
  vta.cycles[number] = vta_cycle_counter();
  for (unsigned i = 0; i < launch->invalidate_count; i++)
    if (memory->invalidate(memory->context, launch->invalidate[i].offset,
                           launch->invalidate[i].size))
      return device_fail("launch %d (%s): cannot invalidate the caches", number, launch->name);
  return 0;
}

uint64_t vta_launch_nanoseconds(unsigned launch)
{
  return launch < vta_network.launch_count ? vta.nanoseconds[launch] : 0;
}

uint32_t vta_launch_cycles(unsigned launch)
{
  return launch < vta_network.launch_count ? vta.cycles[launch] : 0;
}

VtaSettings vta_default_settings(void)
{
  VtaSettings settings = {vta_network.flow, vta_network.registers, "/dev/mem",
                          vta_network.timeout_ms};
  return settings;
}

int vta_open_udmabuf(VtaMemory *memory, const char *name, const char *devices,
                     const char *classes, uint64_t address_offset)
{
  if (device_open_udmabuf(memory, name, devices, classes, vta_memory_bytes())) return 1;
  memory->address += address_offset;
  return 0;
}

void vta_close_udmabuf(VtaMemory *memory) { device_close_udmabuf(memory); }
