"""Records one case and judges its report: what was found, and what must not have been."""

from pathlib import Path

from harness import app, site_matches
from torch_harness import WORKLOADS, TorchHarness

HERE = Path(__file__).resolve().parent
MIB = 1 << 20


class Case(TorchHarness):
    def __init__(self, folder, python, standin=None):
        super().__init__(folder, python, standin)
        self.outcome = None
        self.told = None

    # ---- recording ----------------------------------------------------------------------

    def play(self, script, *arguments, status=0, **how):
        """Records a script by its name here or under workloads/, and reads its report. `how`: memory
        of the device in bytes or as "2G", more_env, ... of Harness.record(). Returns what it printed."""
        path = HERE / f"{script}.py"
        return self.judge(self.go(path if path.exists() else WORKLOADS / f"{script}.py", *arguments, **how), status)

    def play_app(self, name, *arguments, status=0, **how):
        """The same with a program of tests/apps."""
        return self.judge(self.record([app(name), *arguments], **how), status)

    def judge(self, outcome, status):
        self.outcome = outcome
        assert status is None or outcome.status == status, repr(outcome)
        self.told = self.report()
        return outcome.out

    def printed(self):
        """The script's own figures: words of the form name=number that it printed."""
        words = (w.split("=", 1) for w in self.outcome.out.split() if w.count("=") == 1)
        return {name: int(value) for name, value in words if value.lstrip("-").isdigit()}

    # ---- judging ------------------------------------------------------------------------

    def found(self, kind):
        """All findings of a kind, in the report's order."""
        return [f for f in self.told["findings"] if f["kind"] == kind]

    def one(self, kind, severity=None):
        """The only finding of a kind."""
        found = self.found(kind)
        assert len(found) == 1, f"{len(found)} findings of kind {kind}:{self.summary()}"
        assert severity is None or found[0]["severity"] == severity, self.summary()
        return found[0]

    def above_info(self):
        return [f for f in self.told["findings"] if f["severity"] != "info"]

    def only(self, *kinds):
        """Above info there are these kinds, each at least once, and no other."""
        assert {f["kind"] for f in self.above_info()} == set(kinds), self.summary()

    def none(self, *kinds):
        """Nothing of these kinds, not even as info."""
        assert not [f for f in self.told["findings"] if f["kind"] in kinds], self.summary()

    def at(self, finding, source, marker, function):
        """Its site is the line with `# SITE: marker` (`/* SITE: marker */` in C) of the source."""
        assert site_matches(finding["site"], source, marker, function), finding["site"]

    def summary(self):
        lines = [f"{f['severity']} {f['kind']}: {f['title']} [{f['site']}]" for f in self.told["findings"]]
        return "\n  " + "\n  ".join(lines or ["no findings"])


def near(value, wanted, share=0.01):
    """Whether two amounts differ by no more than a share of the wanted one."""
    return abs(value - wanted) <= share * abs(wanted)
