"""The bucket: attachments, node memory, and bodies that are too large for the journal."""

from collections.abc import Iterator

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.constructs.time import duration
from layover.desk.cdk.settings import Settings


class Bucket(Construct):
    """The bucket: private, encrypted, TLS only. Browsers of the named origins may put files by presigned
    URLs."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        settings: Settings,
        origins: list[str],
        key: kms.IKey | None = None,
    ) -> None:
        """`key`: encrypts what is put from now on; None: a key of S3's does."""
        super().__init__(scope, id)
        name = settings.adopt_bucket
        self.bucket: s3.IBucket = (
            s3.Bucket.from_bucket_name(self, "Bucket", name)
            if name
            else self._make(settings, origins, key)
        )

    def _make(self, settings: Settings, origins: list[str], key: kms.IKey | None) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            # One request to KMS for many objects.
            bucket_key_enabled=True if key else None,
            versioned=settings.bucket_versions_days is not None,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            # Pages put files here, and the console reads the URLs that the API gives it.
            cors=[
                s3.CorsRule(
                    allowed_methods=[s3.HttpMethods.PUT, s3.HttpMethods.GET],
                    allowed_origins=origins,
                    allowed_headers=["content-type"],
                    max_age=3000,
                )
            ],
            # No whole object expires by its age: a message may refer to a file long after its upload, and a
            # run to an object of a year ago. The sweeper deletes unused objects
            # (layover/retention/expire.py).
            lifecycle_rules=list(_lifecycle(settings)),
            # Not RETAIN: a first deployment that fails has to remove it, or the next one cannot make it.
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
            if settings.retain
            else RemovalPolicy.DESTROY,
            auto_delete_objects=not settings.retain,
        )
        if settings.retain and bucket.policy is not None:
            # A bucket that stays has to go on refusing requests without TLS: a stack that adopts it does not
            # change it.
            bucket.policy.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        acknowledge(
            bucket,
            ("AwsSolutions-S1", "Access logs would hold users' keys and cost more than the data."),
        )
        return bucket


def _lifecycle(settings: Settings) -> Iterator[s3.LifecycleRule]:
    yield s3.LifecycleRule(
        abort_incomplete_multipart_upload_after=duration(settings.unfinished_uploads)
    )
    if days := settings.bucket_versions_days:
        # What was erased has to end as well: a version that stayed for good would outlive its user.
        yield s3.LifecycleRule(
            noncurrent_version_expiration=Duration.days(days), expired_object_delete_marker=True
        )
