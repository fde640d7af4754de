"""AMD's pseudo-code text to a syntax tree of tuples: ("kind", ...)."""

from __future__ import annotations

import re
from typing import Any

Node = tuple[Any, ...]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<sized>\d+'(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)(?:ULL|LL|U)?)
    | (?P<cast>\d+'[UIFB])
    | (?P<number>0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U)?)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<op>\*\*|<<|>>|<=|>=|==|!=|<>|&&|\|\||\+=|-=|\+:|[-+*/%&|^~!<>=?:;,.(){}\[\]])
    )""",
    re.VERBOSE,
)
_BINARY_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!=", "<>"),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_BLOCK_END = ("endif", "endfor", "else", "elsif", ")", "")


class PseudocodeError(Exception):
    """The text is outside the grammar that the evaluator knows."""


def tokenize(text: str) -> list[tuple[str, str]]:
    """(kind, text) pairs; comments and line ends are dropped."""
    text = re.sub(r"//[^\n]*", "", text)
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise PseudocodeError(f"cannot read {text[position : position + 30]!r}")
        tokens.append((match.lastgroup, match.group(match.lastgroup)))
        position = match.end()
    return tokens


class Parser:
    """Recursive descent over one pseudo-code text."""

    def __init__(self, text: str) -> None:
        self.tokens = [*tokenize(text), ("end", "")]
        self.position = 0

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)][1]

    def take(self, expected: str | None = None) -> tuple[str, str]:
        token = self.tokens[self.position]
        if expected is not None and token[1] != expected:
            raise PseudocodeError(f"expected {expected!r}, found {token[1]!r}")
        self.position += 1
        return token

    def accept(self, text: str) -> bool:
        if self.peek() == text:
            self.position += 1
            return True
        return False

    def parse(self) -> Node:
        body = self.block()
        if self.tokens[self.position][0] != "end":
            raise PseudocodeError(f"unexpected {self.peek()!r}")
        return body

    def block(self) -> Node:
        statements = []
        while self.peek() not in _BLOCK_END:
            if self.accept(";"):
                continue
            statements.append(self.statement())
        return ("block", statements)

    def statement(self) -> Node:
        word = self.peek()
        if word == "if":
            return self.if_statement()
        if word == "for":
            return self.for_statement()
        if word == "declare":
            return self.declaration()
        if word == "break":
            self.take()
            return ("break",)
        if word == "return":
            self.take()
            return ("return", self.expression())
        target = self.expression()
        operator = self.peek()
        if operator in ("=", "+=", "-="):
            self.take()
            if self.peek() == "lambda":
                return ("assign", target, self.function())
            value = self.expression()
            if operator != "=":
                value = ("binary", operator[0], target, value)
            return ("assign", target, value)
        if target[0] == "call":
            return ("evaluate", target)
        raise PseudocodeError(f"not a statement: {target!r} before {operator!r}")

    def if_statement(self) -> Node:
        self.take()
        branches = []
        otherwise: Node = ("block", [])
        condition = self.expression()
        self.take("then")
        branches.append((condition, self.block()))
        while True:
            word = self.take()[1]
            if word == "elsif":
                condition = self.expression()
                self.take("then")
                branches.append((condition, self.block()))
            elif word == "else":
                otherwise = self.block()
            elif word == "endif":
                return ("if", branches, otherwise)
            else:
                raise PseudocodeError(f"unexpected {word!r} in an if")

    def for_statement(self) -> Node:
        self.take()
        name = self.take()[1]
        self.take("in")
        first = self.expression()
        self.take(":")
        last = self.expression()
        self.take("do")
        body = self.block()
        self.take("endfor")
        return ("for", name, first, last, body)

    def declaration(self) -> Node:
        self.take()
        name = self.take()[1]
        self.take(":")
        cast = self.take()[1]
        length = None
        if self.accept("["):
            length = int(self.take()[1])
            self.take("]")
        return ("declare", name, cast, length)

    def function(self) -> Node:
        self.take("lambda")
        self.take("(")
        names = [self.take()[1]]
        while self.accept(","):
            names.append(self.take()[1])
        self.take(")")
        self.take("(")
        if self.peek() in ("if", "declare", "for"):
            body = self.block()
        else:
            body = ("return", self.expression())
        self.take(")")
        return ("lambda", names, body)

    def expression(self) -> Node:
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        yes = self.expression()
        self.take(":")
        return ("choose", condition, yes, self.expression())

    def binary(self, level: int) -> Node:
        if level == len(_BINARY_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _BINARY_LEVELS[level]:
            operator = self.take()[1]
            left = ("binary", operator, left, self.binary(level + 1))
        return left

    def unary(self) -> Node:
        if self.peek() in ("-", "+", "!", "~"):
            operator = self.take()[1]
            return ("unary", operator, self.unary())
        base = self.postfix()
        if self.accept("**"):
            return ("binary", "**", base, self.unary())
        return base

    def postfix(self) -> Node:
        node = self.primary()
        while True:
            if self.accept("."):
                node = ("member", node, self.take()[1])
            elif self.accept("["):
                node = self.index(node)
            else:
                return node

    def index(self, base: Node) -> Node:
        first = self.expression()
        if self.accept("+:"):
            node: Node = ("part", base, first, self.expression())
        elif self.accept(":"):
            node = ("slice", base, first, self.expression())
        else:
            node = ("index", base, first)
        self.take("]")
        return node

    def arguments(self, closing: str) -> list[Node]:
        values = [self.expression()]
        while self.accept(","):
            values.append(self.expression())
        self.take(closing)
        return values

    def primary(self) -> Node:
        kind, text = self.take()
        if kind == "sized":
            return ("sized", text)
        if kind == "number":
            return ("number", text)
        if kind == "cast":
            self.take("(")
            value = self.expression()
            self.take(")")
            return ("cast", text, value)
        if kind == "name":
            if self.accept("("):
                return ("call", text, [] if self.accept(")") else self.arguments(")"))
            return ("name", text)
        if text == "(":
            value = self.expression()
            self.take(")")
            return value
        if text == "{":
            return ("concat", self.arguments("}"))
        raise PseudocodeError(f"unexpected {text!r}")
