"""`call.rerun()` calls the function of a recorded call again, with the arguments it had.

Reading a run never runs the user's code; this does. A run from elsewhere can name any function, so the
caller must trust it first, and the function must be the one that was recorded. Any obstacle (a function
without a name, an argument that was not kept) is reported before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew.recorder import own_shards

from .arguments import arguments_for
from .debugger import call_in_debugger
from .functions import find_function
from .trust import require_named, require_trust

if TYPE_CHECKING:
    from clew.reading.call import Call


def rerun(
    call: Call,
    *,
    trusted: bool = False,
    changed: bool = False,
    debug: bool = False,
    replace: Mapping[str, Any] | None = None,
) -> Any:
    """Call the function of a recorded call again, and return its result.

    trusted  the caller trusts the run and the code that it names; not needed for a call that this process recorded
    changed  call the function even if its code is not, or may not be, the recorded code
    debug    stop in the debugger at its first line
    replace  arguments by name, instead of the recorded ones
    """
    require_named(call)
    require_trust(call, trusted, replace or {})
    function, bound_arguments = find_function(call, changed)
    owner = own_shards.owner_of(call.shard_folder, call.id)
    if owner is not None:
        bound_arguments = {"self": owner, **bound_arguments}
    args, kwargs = arguments_for(call, function, {**bound_arguments, **(replace or {})})
    return call_in_debugger(function, args, kwargs) if debug else function(*args, **kwargs)
