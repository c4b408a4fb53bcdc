"""The options of ``compile`` and ``tune`` about a model's dynamic dimensions."""

from typing import Annotated, Final

import typer

BUCKET_FORM: Final = "NAME=N,N,..."
BUCKET_HELP: Final = (
    "Sizes of a dynamic dimension, by its name or INPUT.AXIS, or NAME=1..128 to have them chosen. Repeatable."
)
PAD_HELP: Final = "What an input is padded with, zero if not given. Repeatable."
EXACT_HELP: Final = "Serve exactly the sizes of --bucket, without padding."

BucketOption = Annotated[list[str] | None, typer.Option(metavar=BUCKET_FORM, help=BUCKET_HELP)]
PadOption = Annotated[list[str] | None, typer.Option(metavar="INPUT=VALUE", help=PAD_HELP)]
MaxBucketsOption = Annotated[int, typer.Option(help="Maximum number of sizes that are chosen for a range.")]
ExactBucketsOption = Annotated[bool, typer.Option("--exact-buckets", help=EXACT_HELP)]
