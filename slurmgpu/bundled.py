"""Where the files beside the code are: templates/, prolog/, epilog/.

In a wheel they lie inside the package (hatch force-include); in a checkout or an editable install they are
the package's siblings. Looked up in that order.
"""

import os


def folder(name: str) -> str:
    """Absolute path of the bundled folder `name`; FileNotFoundError where the installation lacks it."""
    package = os.path.dirname(os.path.abspath(__file__))
    for parent in (package, os.path.dirname(package)):
        path = os.path.join(parent, name)
        if os.path.isdir(path):
            return path
    raise FileNotFoundError(f"slurmgpu is installed without its {name}/ folder; install it again")
