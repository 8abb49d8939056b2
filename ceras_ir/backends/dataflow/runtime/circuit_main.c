/* Run the network on raw tensors in the order of manifest.json, sample by sample. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circuit.h"

static const char usage[] =
    "usage: circuit_run [options] IN.bin OUT.bin\n"
    "  --memory NAME         buffer of u-dma-buf (udmabuf0)\n"
    "  --registers ADDRESS   physical address of the registers (that of the board)\n"
    "  --uio FILE            map registers and wait for interrupts by this UIO device\n"
    "  --register-file FILE  the file that maps physical addresses (/dev/mem)\n"
    "  --interrupt FILE      wait for interrupts by this UIO device (else poll)\n"
    "  --timeout MS          of a launch (ten times the prediction)\n"
    "  --devices DIR         the folder of devices (/dev)\n"
    "  --classes DIR         the folder of the class of u-dma-buf (/sys/class)\n"
    "  --times               print the time of the last launch\n";

static int failed(int status)
{
  fprintf(stderr, "circuit_run: error: %s\n", circuit_error());
  return status;
}

int main(int argc, char **argv)
{
  CircuitSettings settings = circuit_default_settings();
  const char *name = "udmabuf0", *devices = "/dev", *classes = "/sys/class";
  int times = 0, at = 1;
  for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
    const char *option = argv[at];
    if (strcmp(option, "--times") == 0) {
      times = 1;
      continue;
    }
    if (++at >= argc) return fputs(usage, stderr), 2;
    const char *value = argv[at];
    if (strcmp(option, "--memory") == 0) name = value;
    else if (strcmp(option, "--registers") == 0) settings.registers = strtoull(value, NULL, 0);
    else if (strcmp(option, "--register-file") == 0) settings.register_file = value;
    else if (strcmp(option, "--interrupt") == 0) settings.interrupt = value;
    else if (strcmp(option, "--timeout") == 0) settings.timeout_ms = (uint32_t)atol(value);
    else if (strcmp(option, "--devices") == 0) devices = value;
    else if (strcmp(option, "--classes") == 0) classes = value;
    else if (strcmp(option, "--uio") == 0) {
      settings.register_file = settings.interrupt = value;
      settings.registers = 0;
    } else return fputs(usage, stderr), 2;
  }
  if (argc - at != 2) return fputs(usage, stderr), 2;
  FILE *in = fopen(argv[at], "rb");
  if (in == NULL) return failed(device_fail("cannot read the input"));
  CircuitMemory memory;
  if (circuit_open_udmabuf(&memory, name, devices, classes)) return failed(CIRCUIT_FAILED);
  int status = circuit_open(&settings, &memory);
  if (status) return failed(status);
  FILE *out = fopen(argv[at + 1], "wb");
  if (out == NULL) return failed(device_fail("cannot write the output"));
  const DeviceNetwork network = {circuit_network.input_count, circuit_network.output_count,
                                 circuit_network.inputs, circuit_network.outputs, circuit_run};
  status = device_run_samples(&network, in, out);
  if (status) failed(status);
  fclose(in);
  if (fclose(out) != 0 && status == 0) status = failed(device_fail("cannot write the outputs"));
  if (times && status == 0)
    printf("%" PRIu32 " frames: %.1f us, %" PRIu32 " cycles\n", circuit_frames(),
           (double)circuit_nanoseconds() / 1000, circuit_cycles());
  circuit_close();
  circuit_close_udmabuf(&memory);
  return status;
}
