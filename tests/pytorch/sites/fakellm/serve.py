"""python -m fakellm.serve: nothing but the package and PyTorch runs."""

from .engine import Engine

if __name__ == "__main__":
    engine = Engine([70000, 80000])
    engine.in_thread(90000)
    out = engine.generate(30)
    print(f"served {tuple(out.shape)}")
