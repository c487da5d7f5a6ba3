"""Functions that are edited and defined anew, as in a notebook: the same name, file, first line and
size of code, one comment moved, so that the new one comes to lie where the old one was. Prints
whether enough did."""

from probe import notes, probe

ROUNDS = 1000
FILLER = [f"    a{i} = {i}" for i in range(40)]


def define(line):
    """`def cell` whose call of probe() is on that line of it."""
    body = FILLER[:]
    body.insert(line, "    probe()")
    body.insert(0 if line % 2 else len(body), "    # moved")
    found = {"probe": probe}
    exec(compile("def cell():\n" + "\n".join(body) + "\n", "<cell>", "exec"), found)
    return found["cell"]


def shift(comments):
    """The same code each time; only its comments move."""
    body = FILLER[:20] + ["    # note"] * comments + ["    probe()"] + ["    # note"] * (40 - comments) + FILLER[20:]
    found = {"probe": probe}
    exec(compile("def cell():\n" + "\n".join(body) + "\n", "<cell>", "exec"), found)
    return found["cell"]


def warm():
    """The interpreter rewrites its code while it runs: a line stays one stack."""
    for _ in range(100):
        probe()


places = set()
reused = 0
for number in range(ROUNDS):
    cell = shift(number * 7 % 40) if number % 3 else define(number % 40)
    place = id(cell.__code__)
    reused += place in places
    places.add(place)
    cell()
    del cell
warm()
print(len(notes), "reused" if reused > 300 else reused)
