"""Files, and whole results of tools."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from pydantic import Field, Strict

from functions.api.bodies import Body, Whole
from functions.api.call import answer_json, call_of, new_router, redirect
from functions.api.documented import responses
from layover.files import uploads as files
from layover.values.file import MAX_FILE, MAX_NAME, MIME_TYPE, FileUpload

router = new_router()
_TAGS = ["files"]
_LINK = responses(302, None, "`Location`: the URL of the bytes, for 5 minutes", (404,))


class NewFile(Body):
    """A file to upload: an image (PNG, JPEG, GIF, WebP) of at most 5 MB, or another one of at most
    20 MB of any `application`, `audio`, `font`, `image`, `message`, `model`, `text` or `video` type."""

    name: str = Field(
        description="Printable characters.",
        json_schema_extra={"minLength": 1, "maxLength": MAX_NAME, "pattern": "\\S"},
    )
    mime_type: str = Field(json_schema_extra={"pattern": f"^{MIME_TYPE}$"})
    size: Annotated[
        int,
        Strict(),
        Field(
            ge=1,
            description="Bytes; the upload must have exactly this many.",
            json_schema_extra={"maximum": MAX_FILE},
        ),
        Whole,
    ]


@router.post(
    "/files",
    tags=_TAGS,
    summary="Announce a file",
    description="Then `PUT` its bytes to `upload_url` with its type as `Content-Type`, and name it in "
    "a message. It belongs to the first thread that names it and is deleted with that thread.",
    operation_id="create_file",
    responses=responses(201, FileUpload, "The URL for its bytes", (400, 413, 429)),
)
def create_file(body: NewFile) -> Response[str]:
    upload = call_of(router).do(files.create, body.name, body.mime_type, body.size)
    return answer_json(upload, 201, {"Location": f"/files/{upload.id}"})


@router.get(
    "/files/<file_id>",
    tags=_TAGS,
    summary="A file's bytes",
    operation_id="get_file",
    responses=_LINK,
)
def get_file(file_id: str) -> Response[str]:
    return redirect(302, call_of(router).do(files.link, file_id))


@router.get(
    "/runs/<run_id>/tool-calls/<tool_call_id>/result",
    tags=["runs"],
    summary="The whole of a result that was cut for the model",
    operation_id="get_tool_result",
    responses=_LINK,
)
def get_tool_result(run_id: str, tool_call_id: str) -> Response[str]:
    return redirect(302, call_of(router).do(files.result_link, run_id, tool_call_id))
