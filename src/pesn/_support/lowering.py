"""Compile kernels with fewer passes and shorter LLVM code than numba's defaults: a third less time to compile.

Kernels are loops over integer ranges that read and write entries of contiguous arrays. For these, numba generates several times
the code that is needed: it wraps negative indices around, rebuilds the record of an array at each access, and allows for any step
of a range. Here an index must not be negative, unless it is a literal. Everything else is lowered by numba.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.ir import Expr
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.core.types.containers import BaseTuple, Pair
from numba.core.types.functions import BaseFunction
from numba.core.types.iterators import RangeIteratorType, RangeType

_DATA, _SHAPE = 4, 5  # fields of an array's record
_NUMBERS = (types.Number, types.Boolean)
_WITHOUT_REFERENCES = (*_NUMBERS, RangeType, RangeIteratorType)

# Passes for what kernels do not have: closures, `with`, literal unrolling, overloads to inline, array expressions, annotations.
_OMITTED = {
    "AnnotateTypes", "DumpParforDiagnostics", "FindLiterallyCalls", "InlineClosureLikes", "InlineInlinables", "InlineOverloads",
    "LiteralPropagationSubPipelinePass", "LiteralUnroll", "MakeFunctionToJitFunction", "NoPythonSupportedFeatureValidation",
    "NopythonRewrites", "RewriteDynamicRaises", "WithLifting",
}  # fmt: skip


class _Lower(Lower):  # type: ignore[misc]
    """Lowering of numba, with short code for entries of arrays, ranges and references."""

    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        if self.metadata.get("is_small"):
            self.function.attributes.add("optsize")

    def _find_entry(self, array: Any, index: Any) -> ir.Value | None:
        """Return the address of an entry of a contiguous array, or None if numba has to find it."""
        kind, index_type = self.typeof(array.name), self.typeof(index.name)
        each = list(index_type) if isinstance(index_type, BaseTuple) else [index_type]
        if not (isinstance(kind, types.Array) and kind.layout == "C" and kind.aligned and isinstance(kind.dtype, _NUMBERS)):
            return None
        if len(each) != kind.ndim or not all(isinstance(one, types.Integer) for one in each):
            return None
        if any(isinstance(one, types.IntegerLiteral) and one.literal_value < 0 for one in each):
            return None
        builder, record, place = self.builder, self.loadvar(array.name), self.loadvar(index.name)
        is_tuple = isinstance(index_type, BaseTuple)
        places = [builder.extract_value(place, k) for k in range(len(each))] if is_tuple else [place]
        offset = None
        for axis, (one, number) in enumerate(zip(each, places, strict=True)):
            number = self.context.cast(builder, number, one, types.intp)
            if offset is not None:
                number = builder.add(builder.mul(offset, builder.extract_value(record, [_SHAPE, axis])), number)
            offset = number
        return builder.gep(builder.extract_value(record, _DATA), [offset])

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> ir.Value:
        address = self._find_entry(value, index)
        if address is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        kind = self.typeof(value.name).dtype
        return self.context.cast(self.builder, self.context.unpack_value(self.builder, kind, address), kind, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        own = self.typeof(value_var.name)
        address = self._find_entry(target_var, index_var) if isinstance(own, _NUMBERS) else None
        if address is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        kind = self.typeof(target_var.name).dtype
        value = self.context.cast(self.builder, self.loadvar(value_var.name), own, kind)
        self.context.pack_value(self.builder, kind, value, address)
        return None

    def lower_expr(self, resty: Any, expr: Any) -> ir.Value:
        if expr.op in ("getiter", "iternext", "pair_first", "pair_second"):
            kind, value = self.typeof(expr.value.name), self.loadvar(expr.value.name)
            if expr.op == "getiter" and isinstance(kind, RangeType) and self._has_unit_step(expr.value):
                return self._start_range(kind, value, resty)
            if expr.op == "iternext" and isinstance(kind, RangeIteratorType):
                return self._advance_range(value, resty)
            if isinstance(kind, Pair) and isinstance(kind.first_type, types.Integer):
                return self.builder.extract_value(value, int(expr.op == "pair_second"))
        return super().lower_expr(resty, expr)

    def _has_unit_step(self, variable: Any) -> bool:
        """Return whether a variable is ``range(stop)`` or ``range(start, stop)``."""
        call = self.func_ir.get_definition(variable)
        return isinstance(call, Expr) and call.op == "call" and len(call.args) < 3 and not call.vararg

    def _start_range(self, kind: Any, value: ir.Value, resty: Any) -> ir.Value:
        """Return numba's iterator of a range: addresses of the next number and of how many are left, with stop and step."""
        builder = self.builder
        start, stop = (builder.extract_value(value, k) for k in range(2))
        compare = builder.icmp_signed if kind.dtype.signed else builder.icmp_unsigned
        count = builder.select(compare(">", stop, start), builder.sub(stop, start), start.type(0))
        number, left = cgutils.alloca_once(builder, start.type), cgutils.alloca_once(builder, start.type)
        builder.store(start, number)
        builder.store(count, left)
        return self._make_record(resty, number, stop, start.type(1), left)

    def _advance_range(self, value: ir.Value, resty: Any) -> ir.Value:
        """Return the next number of a range and whether there is one, as a pair."""
        builder = self.builder
        number, step, left = (builder.extract_value(value, k) for k in (0, 2, 3))
        now, count = builder.load(number), builder.load(left)
        builder.store(builder.add(now, step), number)
        builder.store(builder.sub(count, count.type(1), flags=["nsw"]), left)
        return self._make_record(resty, now, builder.icmp_signed(">", count, count.type(0)))

    def _make_record(self, kind: Any, *values: ir.Value) -> ir.Value:
        record = ir.Constant(self.context.get_value_type(kind), ir.Undefined)
        for k, value in enumerate(values):
            record = self.builder.insert_value(record, value, k)
        return record

    def incref(self, typ: Any, val: ir.Value) -> None:
        if not isinstance(typ, _WITHOUT_REFERENCES):
            super().incref(typ, val)

    def decref(self, typ: Any, val: ir.Value) -> None:
        if not isinstance(typ, _WITHOUT_REFERENCES):
            super().decref(typ, val)


@register_pass(mutates_CFG=True, analysis_only=False)
class _ShortLowering(NativeLowering):  # type: ignore[misc]
    """The pass that generates LLVM code."""

    _name = "pesn_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return _Lower


class ShortCompiler(Compiler):  # type: ignore[misc]
    """Compiler of kernels: without the passes that kernels do not need, and with :class:`_Lower`."""

    is_small = False

    def define_pipelines(self) -> list[PassManager]:
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            passes = [(_ShortLowering if one is NativeLowering else one, text) for one, text in pipeline.passes]
            pipeline.passes, pipeline._finalized = [], False  # noqa: SLF001 - numba has no way to replace a pass
            for one, text in passes:
                if one.__name__ not in _OMITTED:
                    pipeline.add_pass(one, text)
            pipeline.finalize()
        return pipelines

    def _compile_core(self) -> Any:
        self.state.metadata["is_small"] = self.is_small
        with _compile_alone():
            return super()._compile_core()


_find_call_type = BaseFunction.get_call_type
_call_types: dict[tuple[int, tuple[Any, ...]], tuple[Any, Any]] = {}


def _get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a call; of an operator with types that it had before, without a search of all its variants."""
    if kws or not isinstance(function.typing_key, type(len)):
        return _find_call_type(function, context, args, kws)
    key = id(function), tuple(args)
    if key not in _call_types:
        _call_types[key] = _find_call_type(function, context, args, kws), function  # the function stays alive, and so its id
    return _call_types[key][0]


@contextmanager
def _compile_alone() -> Iterator[None]:
    """Look up call types in a table, and collect no garbage, while a kernel is compiled: collections take a seventh of the time.

    Other compilations of the process see nothing of the table.
    """
    with global_compiler_lock:
        before, collects = BaseFunction.get_call_type, gc.isenabled()
        BaseFunction.get_call_type = _get_call_type  # type: ignore[method-assign, assignment]
        gc.disable()
        try:
            yield
        finally:
            BaseFunction.get_call_type = before  # type: ignore[method-assign]
            if collects:
                gc.enable()
