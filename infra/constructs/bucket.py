"""The bucket: attachments, node memory, and bodies that are too large for the journal."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.constructs.acknowledge import acknowledge
from infra.constructs.time import duration
from infra.settings import Settings


class Bucket(Construct):
    """The bucket: private, encrypted, TLS only. Browsers of the named origins may put files by presigned
    URLs."""

    def __init__(self, scope: Construct, id: str, settings: Settings, origins: list[str]) -> None:
        super().__init__(scope, id)
        self._origins = origins
        name = settings.adopt_bucket
        self.bucket: s3.IBucket = (
            s3.Bucket.from_bucket_name(self, "Bucket", name) if name else self._own(settings)
        )

    def _own(self, settings: Settings) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            cors=[self._rule()],
            # No whole object expires by its age: a message may refer to a file long after its upload, a run
            # to an object of a year ago. The sweeper deletes unused objects (layover/retention/expire.py).
            lifecycle_rules=[
                s3.LifecycleRule(
                    abort_incomplete_multipart_upload_after=duration(settings.unfinished_uploads)
                )
            ],
            # A first deployment that fails removes it.
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
            if settings.retain
            else RemovalPolicy.DESTROY,
            auto_delete_objects=not settings.retain,
        )
        if settings.retain and bucket.policy is not None:
            # TLS only, also for a bucket that stays: it is never deleted, so a stack that adopts it finds it
            # so.
            bucket.policy.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        acknowledge(
            bucket,
            ("AwsSolutions-S1", "Access logs would hold users' keys and cost more than the data."),
        )
        return bucket

    def _rule(self) -> s3.CorsRule:
        """Return the rule: pages put files here, and the console reads the URLs that its API gives it."""
        return s3.CorsRule(
            allowed_methods=[s3.HttpMethods.PUT, s3.HttpMethods.GET],
            allowed_origins=self._origins,
            allowed_headers=["content-type"],
            max_age=3000,
        )
