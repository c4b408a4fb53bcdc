"""An LSTM over a sequence, with a linear layer after its last step."""

from torch import Tensor, nn


class Recurrent(nn.Module):
    """Two layers of LSTM and a linear layer."""

    def __init__(self, *, features: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, width, layers, batch_first=True)
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores [batch, classes] of sequences [batch, steps, features]."""
        states, _ = self.lstm(x)
        return self.classifier(states[:, -1])
