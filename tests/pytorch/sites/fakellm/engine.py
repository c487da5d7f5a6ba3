"""The package's inside: blocks of a cache, a model, a worker thread."""

import threading

import torch


class Engine:
    def __init__(self, blocks):
        self.cache = [self.make_block(size) for size in blocks]
        self.scale = torch.nn.Linear(100, 10).cuda()  # SITE: fakellm model

    def make_block(self, size):
        return torch.zeros(size, dtype=torch.uint8, device="cuda")  # SITE: fakellm block

    def generate(self, tokens):
        return self.scale(torch.ones(tokens, 100).to("cuda"))  # SITE: fakellm tokens

    def in_thread(self, size):
        thread = threading.Thread(target=lambda: self.cache.append(self.make_block(size)))
        thread.start()
        thread.join()
