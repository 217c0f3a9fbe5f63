"""What import-linter cannot say: which NAMES may leave the store, and that plug-ins are strangers."""

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.architecture.source_files import nodes_of, tree_of

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for folder in ("bulkdeploy", "workers") for path in (ROOT / folder).rglob("*.py"))
STORE = ROOT / "bulkdeploy" / "store"
COMMANDS = ROOT / "bulkdeploy" / "commands"
PASSED_UPWARDS = {"Connection", "Engine", "Row"}
"""What code above the store may know of SQLAlchemy: types it hands through."""
EXTRAS = {
    "embedded": "embedded",
    "contract": "contract",
    "contract_suites": "contract",
    "libvirt": "libvirt",
    "opentelemetry": "opentelemetry",
}
"""The extra whose packages a folder or module of this name may import."""
MAKERS = {
    "create_engine",
    "create_app",
    "Celery",
    "Flask",
    "Redis",
    "ConnectionPool",
    "build_system",
    "load_settings",
}


def module_of(path: Path) -> str:
    """A file's module name."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Every (module, name) that a file imports, wherever in the file."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def is_declaration(path: Path) -> bool:
    """True for a command module: one with COMMANDS at its top."""
    tops = tree_of(path).body
    targets: list[ast.expr] = [node.target for node in tops if isinstance(node, ast.AnnAssign)]
    targets += [target for node in tops if isinstance(node, ast.Assign) for target in node.targets]
    return any(isinstance(target, ast.Name) and target.id == "COMMANDS" for target in targets)


def offenders(paths: Iterable[Path], fault: Callable[[Path], object]) -> dict[str, object]:
    """What is wrong with each file that has something wrong."""
    return {module_of(path): found for path in paths if (found := fault(path))}


def test_sql_is_built_in_the_store_only() -> None:
    """Above the store SQLAlchemy appears as the types Connection, Engine and Row, and as its errors."""
    allowed = {("sqlalchemy", name) for name in PASSED_UPWARDS}

    def unwanted(path: Path) -> set[tuple[str, str]]:
        known = {pair for pair in imports(path) if pair[0].partition(".")[0] == "sqlalchemy"}
        return {pair for pair in known - allowed if pair[0] != "sqlalchemy.exc"}

    assert offenders((path for path in SOURCES if STORE not in path.parents), unwanted) == {}


def test_command_modules_are_strangers() -> None:
    """No command module imports another: one more command touches one file."""
    declarations = {module_of(path) for path in COMMANDS.rglob("*.py") if is_declaration(path)}
    assert len(declarations) > 10
    assert (
        offenders(COMMANDS.rglob("*.py"), lambda path: {module for module, _ in imports(path)} & declarations) == {}
    )


def test_nothing_is_made_at_import() -> None:
    """Modules define; no engine, app or connection is made while one is imported."""

    def made(path: Path) -> set[str]:
        tops = (node.value for node in tree_of(path).body if isinstance(node, ast.Assign | ast.AnnAssign))
        calls = (call.func for call in tops if isinstance(call, ast.Call))
        return MAKERS & {func.id if isinstance(func, ast.Name) else getattr(func, "attr", "") for func in calls}

    assert offenders(SOURCES, made) == {}


def test_packages_are_empty() -> None:
    """An ``__init__.py`` holds nothing: what a package offers stands in named files."""
    packages = [path for path in SOURCES if path.name == "__init__.py"]
    assert len(packages) > 10
    assert offenders(packages, lambda path: path.read_text().strip()) == {}


def test_every_library_is_declared() -> None:
    """What the product imports stands in pyproject.toml; what only the embedded servers need, in their extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    distributions = {"pycdlib": ["pycdlib"], "opentelemetry": ["opentelemetry-sdk"]}
    distributions |= {module: ["libvirt-python"] for module in ("libvirt", "libvirt_qemu")}
    distributions |= packages_distributions()

    def named(requirements: Iterable[str]) -> set[str]:
        return {canonicalize_name(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}

    always = named(project["dependencies"]) | {"psycopg-pool"}  # as an extra of psycopg
    optional = {folder: named(project["optional-dependencies"][extra]) for folder, extra in EXTRAS.items()}

    def undeclared(path: Path) -> set[str]:
        allowed = always.union(
            *(names for folder, names in optional.items() if folder in path.with_suffix("").parts)
        )
        tops = {module.partition(".")[0] for module, _ in imports(path)}
        outside = tops - sys.stdlib_module_names - {"bulkdeploy", "workers"}
        return {top for top in outside if not {canonicalize_name(name) for name in distributions[top]} & allowed}

    assert offenders(SOURCES, undeclared) == {}
