"""The parameters ``keypair`` and ``keypairs``, which name SSH key pairs of a VM's owner."""

from bulkdeploy.commands.call import Call


def key_pair_names(call: Call) -> tuple[str, ...]:
    """Return the names in ``keypair`` and ``keypairs`` without duplicates. An empty ``keypair`` is ignored."""
    one = call.text("keypair")
    return tuple(dict.fromkeys((*call.arguments.get("keypairs", ()), *((one,) if one else ()))))
