"""The intermediate representation: dimensions, types, terms, graphs and plans, all immutable values."""

from superopt.ir.dimensions import Dimension, SymbolicDimension, symbol
from superopt.ir.graph import (
    CyclicGraphError,
    Graph,
    GraphEditor,
    GraphOperator,
    Input,
    Node,
    NodeId,
    Value,
    Weight,
)
from superopt.ir.numbers import AttributeVariable, NumberExpression
from superopt.ir.plan import Fetch, FusionGroup, Parallelism, Plan, Residence
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeValue,
    Condition,
    ConditionCall,
    ConditionName,
    Direction,
    Equation,
    Term,
    Variable,
    VariableType,
)
from superopt.ir.text import format_graph, format_operator
from superopt.ir.types import ElementType, TensorType, UnknownType, ValueType

__all__ = [
    "Application",
    "AttributeTerm",
    "AttributeValue",
    "AttributeVariable",
    "Condition",
    "ConditionCall",
    "ConditionName",
    "CyclicGraphError",
    "Dimension",
    "Direction",
    "ElementType",
    "Equation",
    "Fetch",
    "FusionGroup",
    "Graph",
    "GraphEditor",
    "GraphOperator",
    "Input",
    "Node",
    "NodeId",
    "NumberExpression",
    "Parallelism",
    "Plan",
    "Residence",
    "SymbolicDimension",
    "TensorType",
    "Term",
    "UnknownType",
    "Value",
    "ValueType",
    "Variable",
    "VariableType",
    "Weight",
    "format_graph",
    "format_operator",
    "symbol",
]
