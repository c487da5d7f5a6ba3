"""A loader with workers and pinned batches, sent without blocking; once with workers that stay."""

import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return torch.full((3, 16, 16), float(index)), index % 10


def main():
    seen = pinned = 0
    for stay in (False, True):
        loader = DataLoader(Images(), batch_size=8, num_workers=2, pin_memory=True, persistent_workers=stay)
        for _ in range(2 if stay else 1):
            for images, labels in loader:
                pinned += images.is_pinned() and labels.is_pinned()
                images = images.to("cuda", non_blocking=True)
                labels = labels.to("cuda", non_blocking=True)
                images.mul_(2)
                seen += len(labels)
    torch.cuda.synchronize()
    print(f"{seen} images, {pinned} pinned batches")


if __name__ == "__main__":
    main()
