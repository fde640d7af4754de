// RUN: tessera-opt %s -p assign-schedules --target gfx1151 | filecheck %s
// RUN: tessera-opt %s -p assign-schedules{target=gfx1151} --target gfx1100 | filecheck %s

// Sizes that are not known take the largest tile; rows of unknown length are aligned to elements.
// CHECK-LABEL: func.func @unknown
// CHECK-NEXT: %c = tile.matmul(%a, %b) {name = "m", alignment = 2 : i64, mt = [[MT:[0-9]+]] : i64, nt = [[NT:[0-9]+]] : i64, waves_m = [[WM:[0-9]+]] : i64, waves_n = [[WN:[0-9]+]] : i64, block_k = [[BK:[0-9]+]] : i64
func.func @unknown(%a: tensor<?x?xf16>, %b: tensor<?x?xf16>) {
  %c = tile.matmul(%a, %b) {name = "m"} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  func.return
}

// What is fixed stays.
// CHECK-LABEL: func.func @fixed
// CHECK-NEXT: tile.matmul(%a, %b) {name = "m", mt = 1 : i64, block_k = 0 : i64, alignment = 2 : i64, nt = [[NT]] : i64, waves_m = [[WM]] : i64, waves_n = [[WN]] : i64
func.func @fixed(%a: tensor<?x?xf16>, %b: tensor<?x?xf16>) {
  %c = tile.matmul(%a, %b) {name = "m", mt = 1, block_k = 0} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  func.return
}

// Arguments are as aligned as they promise, intermediates as their row length allows.
// CHECK-LABEL: func.func @aligned
// CHECK-NEXT: %c = tile.matmul(%a, %b) {name = "m", out_dtype = "f16", alignment = 16 : i64,
// CHECK-NEXT: %d = tile.matmul(%c, %b) {name = "n", alignment = 16 : i64,
// CHECK-NEXT: %e = tile.matmul(%c, %w) {name = "o", alignment = 2 : i64,
func.func @aligned(%a: tensor<8x64xf16> {tessera.alignment = 16 : i64}, %b: tensor<64x64xf16> {tessera.alignment = 16 : i64}, %w: tensor<64x33xf16>) {
  %c = tile.matmul(%a, %b) {name = "m", out_dtype = "f16"} : (tensor<8x64xf16>, tensor<64x64xf16>) -> tensor<8x64xf16>
  %d = tile.matmul(%c, %b) {name = "n"} : (tensor<8x64xf16>, tensor<64x64xf16>) -> tensor<8x64xf32>
  %e = tile.matmul(%c, %w) {name = "o"} : (tensor<8x64xf16>, tensor<64x33xf16>) -> tensor<8x33xf32>
  func.return
}

// A view keeps its source's alignment while its rows stay contiguous and long enough. The lse of
// attention is not read row by row and does not count.
// CHECK-LABEL: func.func @views
// CHECK: tile.flash_attn(%y, %y, %y) {name = "fa", alignment = 16 : i64, waves = {{[0-9]+}} : i64, queries_per_wave = {{[0-9]+}} : i64, keys_per_step = {{[0-9]+}} : i64
// CHECK: tile.elementwise(%u) {name = "relu_0", function = "relu", alignment = 2 : i64}
// CHECK: tile.elementwise(%s) {name = "relu_1", function = "relu", alignment = 2 : i64}
func.func @views(%x: tensor<9x80xf16> {tessera.alignment = 16 : i64}) {
  %t = tile.view %x {kind = "reshape", parameters = array<i64: 1, 9, 2, 40>} : tensor<9x80xf16> -> tensor<1x9x2x40xf16>
  %y = tile.view %t {kind = "permute", parameters = array<i64: 0, 2, 1, 3>} : tensor<1x9x2x40xf16> -> tensor<1x2x9x40xf16>
  %o, %lse = tile.flash_attn(%y, %y, %y) {name = "fa"} : (tensor<1x2x9x40xf16>, tensor<1x2x9x40xf16>, tensor<1x2x9x40xf16>) -> (tensor<1x2x9x40xf16>, tensor<1x2x9xf32>)
  %u = tile.view %x {kind = "permute", parameters = array<i64: 1, 0>} : tensor<9x80xf16> -> tensor<80x9xf16>
  %v = tile.elementwise(%u) {name = "relu_0", function = "relu"} : (tensor<80x9xf16>) -> tensor<80x9xf16>
  %s = tile.view %x {kind = "reshape", parameters = array<i64: 180, 4>} : tensor<9x80xf16> -> tensor<180x4xf16>
  %z = tile.elementwise(%s) {name = "relu_1", function = "relu"} : (tensor<180x4xf16>) -> tensor<180x4xf16>
  func.return
}

// CHECK-LABEL: func.func @backward
// CHECK-NEXT: tile.flash_attn_bwd(%q, %k, %k, %q, %lse, %q) {name = "fab", alignment = 2 : i64, waves = {{[0-9]+}} : i64, rows_per_step = {{[0-9]+}} : i64
func.func @backward(%q: tensor<1x2x?x64xf16>, %k: tensor<1x1x?x64xf16>, %lse: tensor<1x2x?xf32>) -> tensor<1x2x?x64xf16> {
  %dq, %dk, %dv = tile.flash_attn_bwd(%q, %k, %k, %q, %lse, %q) {name = "fab"} : (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?xf32>, tensor<1x2x?x64xf16>) -> (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>)
  func.return %dq : tensor<1x2x?x64xf16>
}
