"""Why a page cannot be shown."""


class PageProblem(Exception):
    """An answer other than the page: the HTTP status, and a sentence for the reader."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
