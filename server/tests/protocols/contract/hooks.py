"""What schemathesis is told about our server that no schema can say."""

import schemathesis


@schemathesis.hook
def map_body(context, body):
    return ours(body)


@schemathesis.hook
def map_query(context, query):
    return ours(query)


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    return ours(path_parameters)


def ours(value):
    # To JSON Schema 36.0 is a whole number. To us it is not.
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    # We count bytes where JSON Schema counts characters: in long texts the two must be the same.
    if isinstance(value, str) and len(value) > 30:
        return value.encode("ascii", "replace").decode().replace("?", "x")
    if isinstance(value, list):
        return [ours(item) for item in value]
    if isinstance(value, dict):
        return {name: ours(item) for name, item in value.items()}
    return value
