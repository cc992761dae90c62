"""Which recipe builds an engine, by its language."""

from . import c, go, rust, zig

RECIPES = {"c": c.build, "go": go.build, "rust": rust.build, "zig": zig.build}
