/* Run the network on raw tensors in the order of manifest.json, sample by sample. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "samples.h"
#include "vta.h"

static const char usage[] =
    "usage: vta_run [options] IN.bin OUT.bin\n"
    "  --folder DIR          the compiled folder (the current one)\n"
    "  --memory NAME         buffer of u-dma-buf (udmabuf0)\n"
    "  --flow hls|chisel     whose registers, if the board's configuration does not say\n"
    "  --registers ADDRESS   physical address of the registers, the same\n"
    "  --offset ADDRESS      what VTA adds to physical addresses, the same\n"
    "  --timeout MS          for one launch (ten times its prediction)\n"
    "  --register-file FILE  through which registers are mapped (/dev/mem)\n"
    "  --devices DIR         where devices are (/dev)\n"
    "  --classes DIR         where u-dma-buf's class is (/sys/class)\n"
    "  --times               print the time of every launch\n";

static int failed(const char *reason)
{
  fprintf(stderr, "vta_run: error: %s\n", reason);
  return 1;
}

int main(int argc, char **argv)
{
  VtaSettings settings = vta_default_settings();
  const char *folder = ".", *name = "udmabuf0", *devices = "/dev", *classes = "/sys/class";
  const char *flow = NULL;
  uint64_t offset = vta_network.address_offset;
  int times = 0, at = 1;
  for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
    const char *option = argv[at];
    if (strcmp(option, "--times") == 0) {
      times = 1;
      continue;
    }
    if (++at >= argc) return fputs(usage, stderr), 2;
    const char *value = argv[at];
    if (strcmp(option, "--folder") == 0) folder = value;
    else if (strcmp(option, "--memory") == 0) name = value;
    else if (strcmp(option, "--flow") == 0) flow = value;
    else if (strcmp(option, "--registers") == 0) settings.registers = strtoull(value, NULL, 0);
    else if (strcmp(option, "--offset") == 0) offset = strtoull(value, NULL, 0);
    else if (strcmp(option, "--timeout") == 0) settings.timeout_ms = (uint32_t)atol(value);
    else if (strcmp(option, "--register-file") == 0) settings.register_file = value;
    else if (strcmp(option, "--devices") == 0) devices = value;
    else if (strcmp(option, "--classes") == 0) classes = value;
    else return fputs(usage, stderr), 2;
  }
  if (argc - at != 2) return fputs(usage, stderr), 2;
  if (flow != NULL) {
    if (strcmp(flow, "hls") != 0 && strcmp(flow, "chisel") != 0) return fputs(usage, stderr), 2;
    settings.flow = strcmp(flow, "hls") == 0 ? VTA_HLS : VTA_CHISEL;
  }
  FILE *in = fopen(argv[at], "rb");
  if (in == NULL) return failed("cannot read the input");
  VtaMemory memory;
  if (vta_open_udmabuf(&memory, name, devices, classes, offset)) return failed(vta_error());
  if (vta_open(folder, &settings, &memory)) return failed(vta_error());
  FILE *out = fopen(argv[at + 1], "wb");
  if (out == NULL) return failed("cannot write the output");
  const DeviceNetwork network = {vta_network.input_count, vta_network.output_count,
                                 vta_network.inputs, vta_network.outputs, vta_run};
  int status = device_run_samples(&network, in, out);
  if (status) status = failed(vta_error());
  fclose(in);
  if (fclose(out) != 0 && status == 0) status = failed("cannot write the outputs");
  for (unsigned i = 0; times && status == 0 && i < vta_network.launch_count; i++)
    printf("launch %u (%s): %.1f us, %" PRIu32 " cycles\n", i, vta_network.launches[i].name,
           (double)vta_launch_nanoseconds(i) / 1000, vta_launch_cycles(i));
  vta_close();
  vta_close_udmabuf(&memory);
  return status;
}
