// RUN: tessera-opt %s -p generate-elementwise-kernel,verify-level{level=kernel} | filecheck %s

// CHECK: func.func @f
// CHECK-NEXT: %y = tessera_rocm.launch(%x) {contract = "elementwise", options = {{[{].*}}function = "mul"{{.*}}}, rules = "[{\22kernel\22:\22mul_0\22,
// CHECK: "gpu.module"
// CHECK: func.func {{.*}}@add_0(%x0: !wave.pointer<f32>, %x1: !wave.pointer<f32>, %out: !wave.pointer<f16>
// CHECK-COUNT-2: wave.load_element
// CHECK: arith.addf
// CHECK: arith.truncf {{.*}} : f32 to f16
// CHECK: wave.store_element
// CHECK: func.func {{.*}}@mul_0(%x0: !wave.pointer<bf16>, %out: !wave.pointer<bf16>
// CHECK: arith.mulf
// CHECK-NOT: tessera_rocm.
"tessera_rocm.elementwise"() {name = "add_0", function = "add", dtype = "f32", out_dtype = "f16"} : () -> ()
func.func @f(%x: tensor<7x?xbf16>) -> tensor<7x?xbf16> {
  %y = tessera_rocm.elementwise(%x) {name = "mul_0", function = "mul", scalar = 2.0 : f64, dtype = "bf16", out_dtype = "bf16"} : (tensor<7x?xbf16>) -> tensor<7x?xbf16>
  func.return %y : tensor<7x?xbf16>
}
