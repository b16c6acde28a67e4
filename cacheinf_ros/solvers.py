# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Load scipy's solvers before a frame needs them.

Most nodes need none, and importing them takes 0.15 to 0.4 s, so modules import them in the functions that call them. A
node that is going to call such a function for its frames loads them while it starts: otherwise the first of these
frames would wait.
"""

from __future__ import annotations


def load_solvers() -> None:
    """Import the solvers that modules of this package import late."""
    import scipy.optimize
    import scipy.sparse.csgraph  # noqa: F401  they are kept in sys.modules
