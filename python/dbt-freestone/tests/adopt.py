"""Classes of dbt's tests of adapters, as tests of this one."""

import importlib
import inspect


def adopted(*modules):
    """The tests of modules of ``dbt.tests.adapter``, by their names here."""
    found = {}
    for name in modules:
        module = importlib.import_module(f"dbt.tests.adapter.{name}")
        for base, cls in vars(module).items():
            is_test = inspect.isclass(cls) and cls.__module__ == module.__name__ and any(key.startswith("test_") for key in dir(cls))
            if is_test and base.startswith(("Base", "Test")):
                here = "Test" + base[4:]
                found[here] = type(here, (cls,), {})
    return found
