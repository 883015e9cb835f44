"""What an office says of a publication beside its numbers: title, publisher, contact, licence, citation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, ValidationInfo

from leastnoise.errors import LeastnoiseError
from leastnoise.workload.fields import Names, schema, shown
from leastnoise.workload.parts import Part

LONGEST_LINE, LONGEST_TEXT = 300, 10_000  # characters
MOST_QUESTIONS = 1_000


def _text(most: int) -> BeforeValidator:
    def check(value: object, info: ValidationInfo) -> str:
        if not isinstance(value, str) or not value.strip():
            raise LeastnoiseError(f"{info.field_name} is {shown(value)}; write some text, or leave it out")
        if len(value) > most:
            raise LeastnoiseError(f"{info.field_name} has {len(value):,} characters; use at most {most:,}")
        return str(value).strip()

    return BeforeValidator(check)


Line = Annotated[str, _text(LONGEST_LINE), schema(type="string", minLength=1, maxLength=LONGEST_LINE)]
Paragraphs = Annotated[str, _text(LONGEST_TEXT), schema(type="string", minLength=1, maxLength=LONGEST_TEXT)]


class QuestionPart(Part):
    """A question that is answered for each value of some attributes."""

    called = "a question"
    example = "{ask: mean(age), by: [sex]}"
    ask: Paragraphs
    by: Names = Field(default_factory=list)


AnyQuestion = Annotated[
    Annotated[Paragraphs, Tag("#text")] | Annotated[QuestionPart, Tag("#part")],
    Discriminator(lambda data: "#part" if isinstance(data, Mapping | Part) else "#text"),
]
Questions = Annotated[list[AnyQuestion], Field(min_length=1, max_length=MOST_QUESTIONS)]


class Publication(Part):
    """What readers of a release are told beside its numbers; nothing of it has a part in what is measured or spent.

    `counted` says what rows stand for, such as people; paragraphs of `introduction` are apart by an empty line.
    `questions` are answered wherever the release is shown.

    >>> Publication.of({"title": "Labour survey 2026", "licence": "CC BY 4.0"}).title
    'Labour survey 2026'

    Guarantees: words_do_not_change_the_plan.
    """

    called = "publication"
    example = "{title: Labour survey 2026, publisher: Statistics Office, contact: info@example.org, licence: CC BY 4.0}"
    title: Line | None = None
    publisher: Line | None = None
    contact: Line | None = None
    licence: Line | None = None
    citation: Paragraphs | None = None
    introduction: Paragraphs | None = None
    counted: Line | None = None
    questions: Questions | None = None

    @property
    def asked(self) -> list[tuple[str, tuple[str, ...]]]:
        """Each question with the attributes by which it is answered."""
        parts = self.questions or []
        return [(q.ask, tuple(q.by)) if isinstance(q, QuestionPart) else (q, ()) for q in parts]

    @classmethod
    def of(cls, words: Publication | Mapping[str, Any] | None) -> Publication | None:
        """From its fields, as a spec has them."""
        if words is None or isinstance(words, Publication):
            return words
        try:
            return cls.model_validate(words)
        except ValidationError as error:
            cause = error.errors()[0].get("ctx", {}).get("error")
            raise LeastnoiseError(str(cause or f"publication: {error.errors()[0]['msg']}")) from None
