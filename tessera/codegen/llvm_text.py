"""Kernel IR (wave, scf, arith, math) to LLVM IR text, straight from structured control flow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from xdsl.dialects import func, gpu, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tessera.codegen.llvm_types import llvm_types
from tessera.errors import CompileError
from tessera.targets import Target

Rule = Callable[["FunctionEmitter", Operation], None]
"""How one kind of operation is written: appends lines and binds the operation's results."""


class FunctionEmitter:
    """Writes one kernel: lines of LLVM text, names of SSA values, the label being filled.

    An SSA value of the kernel level may be several LLVM values (a staged tile is one vector per
    piece), so names are tuples; `value` insists on exactly one.
    """

    def __init__(self, target: Target, kernel: func.FuncOp, rules: Mapping[type, Rule]):
        self.target = target
        self.kernel = kernel
        self.rules = rules
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.globals: list[str] = []
        self.label = "entry"
        self._names: dict[SSAValue, tuple[str, ...]] = {}
        self._counter = 0

    # Names and lines.

    def fresh(self, stem: str = "v") -> str:
        """A local name that nothing else in this kernel has."""
        self._counter += 1
        return f"%{stem}{self._counter}"

    def line(self, text: str) -> None:
        """Append one instruction."""
        self.lines.append("  " + text)

    def assign(self, text: str) -> str:
        """Append `name = text` and return the new name."""
        name = self.fresh()
        self.line(f"{name} = {text}")
        return name

    def bind(self, value: SSAValue, *names: str) -> None:
        """State which LLVM values an SSA value stands for."""
        self._names[value] = names

    def values(self, value: SSAValue) -> tuple[str, ...]:
        """The LLVM values that an SSA value stands for."""
        return self._names[value]

    def value(self, value: SSAValue) -> str:
        """The one LLVM value that an SSA value stands for."""
        (name,) = self._names[value]
        return name

    def types(self, type_: Attribute) -> tuple[str, ...]:
        """The LLVM types of the values that make up a kernel-level type."""
        return llvm_types(type_, self.target, self.threads)

    def type(self, value: SSAValue) -> str:
        """The one LLVM type of an SSA value."""
        (name,) = self.types(value.type)
        return name

    @property
    def threads(self) -> int:
        """Threads of the workgroup, from the kernel's `block` attribute."""
        return kernel_block(self.kernel)[0]

    # Calls and control flow.

    def call(self, result: str, function: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Call an intrinsic with (type, value) arguments; returns the result's name or ""."""
        types = ", ".join(type_ for type_, _ in arguments)
        self.declarations.add(f"declare {result} @{function}({types})")
        text = f"call {result} @{function}({', '.join(f'{t} {v}' for t, v in arguments)})"
        if result == "void":
            self.line(text)
            return ""
        return self.assign(text)

    def start_block(self, label: str) -> None:
        """Begin the basic block `label`; the previous one must have been closed."""
        self.lines.append(f"{label}:")
        self.label = label

    def new_label(self, stem: str) -> str:
        """A label that nothing else in this kernel has."""
        return self.fresh(stem)[1:]

    def branch(self, label: str) -> None:
        """Close the current block with a jump."""
        self.line(f"br label %{label}")

    def if_then(self, condition: str, body: Callable[[], None]) -> None:
        """Run `body` where an i1 holds; `body` may open further blocks."""
        then, end = self.new_label("then"), self.new_label("end")
        self.line(f"br i1 {condition}, label %{then}, label %{end}")
        self.start_block(then)
        body()
        self.branch(end)
        self.start_block(end)

    def value_where(self, condition: str, type_: str, body: Callable[[], str]) -> str:
        """The value of `body`, run only where an i1 holds, and zero elsewhere."""
        before, then, end = self.label, self.new_label("then"), self.new_label("end")
        self.line(f"br i1 {condition}, label %{then}, label %{end}")
        self.start_block(then)
        value = body()
        inner = self.label
        self.branch(end)
        self.start_block(end)
        return self.assign(f"phi {type_} [ {value}, %{inner} ], [ zeroinitializer, %{before} ]")

    def if_else(
        self, condition: str, then: Callable[[], None], otherwise: Callable[[], None]
    ) -> None:
        """Run one of two bodies."""
        labels = [self.new_label(stem) for stem in ("then", "else", "end")]
        self.line(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        for label, body in zip(labels, (then, otherwise), strict=False):
            self.start_block(label)
            body()
            self.branch(labels[2])
        self.start_block(labels[2])

    # Operations.

    def operations(self, operations: Iterable[Operation]) -> None:
        """Write operations in order; CompileError for one without a rule."""
        for operation in operations:
            rule = self.rules.get(type(operation))
            if rule is None:
                raise CompileError(f"LLVM printer: no rule for operation {operation.name!r}")
            rule(self, operation)

    def body(self, block: Block) -> tuple[str, ...]:
        """Write a block and return the values that its terminator yields, flattened."""
        *operations, terminator = block.ops
        self.operations(operations)
        return tuple(name for operand in terminator.operands for name in self.values(operand))


def emit_for(emitter: FunctionEmitter, operation: Operation) -> None:
    """scf.for to a header with phis, a body and an exit; the loop is not unrolled by LLVM."""
    assert isinstance(operation, scf.ForOp)
    induction_type = emitter.type(operation.lb)
    header, body, end = (emitter.new_label(stem) for stem in ("for", "body", "done"))
    entry = emitter.label
    emitter.branch(header)
    emitter.start_block(header)
    induction = emitter.fresh("i")
    induction_phi = len(emitter.lines)
    emitter.lines.append("")
    carried: list[tuple[str, str, str]] = []
    for argument, initial in zip(operation.body.block.args[1:], operation.iter_args, strict=True):
        names = []
        for type_, value in zip(emitter.types(argument.type), emitter.values(initial), strict=True):
            name = emitter.fresh("c")
            carried.append((name, type_, value))
            names.append(name)
        emitter.bind(argument, *names)
    carried_phi = len(emitter.lines)
    emitter.lines.extend("" for _ in carried)
    bound = emitter.value(operation.ub)
    condition = emitter.assign(f"icmp slt {induction_type} {induction}, {bound}")
    emitter.line(f"br i1 {condition}, label %{body}, label %{end}")
    emitter.start_block(body)
    emitter.bind(operation.body.block.args[0], induction)
    yielded = emitter.body(operation.body.block)
    step = emitter.value(operation.step)
    following = emitter.assign(f"add nsw {induction_type} {induction}, {step}")
    latch = emitter.label
    emitter.line(f"br label %{header}, !llvm.loop !0")
    emitter.lines[induction_phi] = (
        f"  {induction} = phi {induction_type} [ {emitter.value(operation.lb)}, %{entry} ], "
        f"[ {following}, %{latch} ]"
    )
    for index, ((name, type_, initial), value) in enumerate(zip(carried, yielded, strict=True)):
        emitter.lines[carried_phi + index] = (
            f"  {name} = phi {type_} [ {initial}, %{entry} ], [ {value}, %{latch} ]"
        )
    emitter.start_block(end)
    _bind_flat(emitter, operation, [name for name, _, _ in carried])


def emit_if(emitter: FunctionEmitter, operation: Operation) -> None:
    """scf.if to two blocks that meet in phis."""
    assert isinstance(operation, scf.IfOp)
    condition = emitter.value(operation.cond)
    then, otherwise, end = (emitter.new_label(stem) for stem in ("then", "else", "end"))
    emitter.line(f"br i1 {condition}, label %{then}, label %{otherwise}")
    arms = []
    for label, region in ((then, operation.true_region), (otherwise, operation.false_region)):
        emitter.start_block(label)
        values = emitter.body(region.block) if region.blocks else ()
        arms.append((values, emitter.label))
        emitter.branch(end)
    emitter.start_block(end)
    types = [type_ for result in operation.results for type_ in emitter.types(result.type)]
    (true_values, true_label), (false_values, false_label) = arms
    names = [
        emitter.assign(f"phi {type_} [ {first}, %{true_label} ], [ {second}, %{false_label} ]")
        for type_, first, second in zip(types, true_values, false_values, strict=True)
    ]
    _bind_flat(emitter, operation, names)


def _bind_flat(emitter: FunctionEmitter, operation: Operation, names: Sequence[str]) -> None:
    """Deal a flat list of LLVM values out to an operation's results."""
    position = 0
    for result in operation.results:
        width = len(emitter.types(result.type))
        emitter.bind(result, *names[position : position + width])
        position += width


def kernel_block(kernel: func.FuncOp) -> tuple[int, int, int]:
    """Threads per workgroup along each axis, from the kernel's `block` attribute."""
    block = kernel.attributes.get("block")
    if block is None:
        raise CompileError(f"kernel {kernel.sym_name.data!r} has no `block` attribute")
    x, y, z = block.get_values()  # type: ignore[attr-defined]
    return x, y, z


def kernels_of(module: ModuleOp) -> list[func.FuncOp]:
    """Every kernel of a kernel-level module, in order."""
    return [
        operation
        for gpu_module in module.walk()
        if isinstance(gpu_module, gpu.ModuleOp)
        for operation in gpu_module.body.block.ops
        if isinstance(operation, func.FuncOp)
    ]


def print_llvm(module: ModuleOp, target: Target) -> str:
    """LLVM IR text of every kernel in a kernel-level module.

    Raises CompileError for an operation, type or attribute that the printer does not know.
    """
    from tessera.codegen.rules import family_rules

    family = family_rules(target.family)
    header = [f'target triple = "{target.triple}"', ""]
    bodies: list[str] = []
    declarations: set[str] = set()
    for kernel in kernels_of(module):
        emitter = FunctionEmitter(target, kernel, family.rules)
        bodies += family.function(emitter)
        header += emitter.globals
        declarations |= emitter.declarations
    return "\n".join([*header, *bodies, *sorted(declarations), "", *family.metadata, ""])
