// RUN: ceras-opt %s --allocate-blocks="io=true regions=sram:48,psram:100:10" 2>&1 | filecheck %s
// RUN: ceras-opt %s --allocate-blocks="io=true regions=sram:48,psram:100" --allocate-blocks="io=true" 2>/dev/null | filecheck %s --check-prefix=AGAIN
// RUN: not ceras-opt %s --allocate-blocks="io=true regions=sram:16,psram:47" 2>&1 | filecheck %s --check-prefix=SMALL
// RUN: not ceras-opt %s --allocate-blocks="regions=sram:16,sram:48" 2>&1 | filecheck %s --check-prefix=TWICE
// RUN: not ceras-opt %s --allocate-blocks="regions=sram:16 strategy=colouring" 2>&1 | filecheck %s --check-prefix=COLOUR
// RUN: ceras-opt %s --allocate-blocks="io=true regions=sram:48,psram:100" -t c 2>/dev/null | filecheck %s --check-prefix=TARGET

// What is read and written most is in the first region; in it, results are in place.
// CHECK:      region sram: peak 32 of 48 bytes, lower bound 32, gap 0.00%; 2 buffers, traffic 144 bytes (81.8%)
// CHECK-NEXT: region psram: peak 32 of 100 bytes, lower bound 32, gap 0.00%; 1 buffer, traffic 32 bytes (18.2%), 3.2 us
// CHECK-NEXT: no plan has more traffic in sram

// CHECK-LABEL: func.func @main
// CHECK-SAME:  {mem.block = #mem.block<id = 0, offset = 0, size = 16, region = sram>}
// CHECK-SAME:  mem.regions = [#mem.region<size = 32, capacity = 48, region = sram>, #mem.region<size = 32, capacity = 100, region = psram>]
// CHECK-SAME:  mem.arena = #mem.arena<size = 64, alignment = 16>
// CHECK-NEXT:  graph.unary <relu> {{.*}}offset = 0, size = 16, region = sram>
// CHECK-NEXT:  graph.unary <sigmoid> {{.*}}offset = 16, size = 16, region = sram>
// CHECK-NEXT:  graph.binary sub {{.*}}offset = 16, size = 16, region = sram>
// CHECK-NEXT:  graph.concat {{.*}}offset = 0, size = 32, region = psram>

// AGAIN-NOT: region
// AGAIN:     mem.arena = #mem.arena<size = 64, alignment = 16>
// AGAIN-NOT: region

// SMALL: region 'psram' of 47 bytes is too small: it needs at least 48 bytes, if all other regions are full: 'sram' (16); the largest values alive at 'graph.concat at line {{[0-9]+}}': 'graph.concat at line {{[0-9]+}}' (32 bytes), 'input0' (16 bytes), 'graph.unary at line {{[0-9]+}}' (16 bytes)
// TWICE: two regions have the name 'sram'
// COLOUR: regions require strategy=offsets without in-slices
// A pointer for each memory; test/backends/c/test_regions.py runs it, and has the targets that refuse.
// TARGET: int model_run_in(void *region_sram, void *region_psram, const float *input0, float *output0)
func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
  %a = graph.unary <relu> %x : tensor<4xf32>
  %b = graph.unary <sigmoid> %a : tensor<4xf32>
  %c = graph.binary sub %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = graph.concat %c, %a {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  func.return %d : tensor<8xf32>
}
