"""The errors that AWS names when a state machine's Lambda task fails by accident."""

STEP_FUNCTIONS = (
    "Lambda.AWSLambdaException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.SdkClientException",
    "Lambda.ServiceException",
    "Lambda.TooManyRequestsException",
)
"""Step Functions Developer Guide, "Handle Lambda service exceptions"; `Lambda.Unknown` is below."""
INVOKE = (
    "Lambda.CodeArtifactUserDeletedException",
    "Lambda.CodeArtifactUserFailedException",
    "Lambda.CodeArtifactUserPendingException",
    "Lambda.EC2AccessDeniedException",
    "Lambda.EC2ThrottledException",
    "Lambda.EC2UnexpectedException",
    "Lambda.EFSIOException",
    "Lambda.EFSMountConnectivityException",
    "Lambda.EFSMountFailureException",
    "Lambda.EFSMountTimeoutException",
    "Lambda.ENILimitReachedException",
    "Lambda.ENINotReadyException",
    "Lambda.InvalidRuntimeException",
    "Lambda.InvalidSecurityGroupIDException",
    "Lambda.InvalidSubnetIDException",
    "Lambda.InvalidZipFileException",
    "Lambda.KMSAccessDeniedException",
    "Lambda.KMSDisabledException",
    "Lambda.KMSInvalidStateException",
    "Lambda.KMSNotFoundException",
    "Lambda.RecursiveInvocationException",
    "Lambda.ResourceConflictException",
    "Lambda.ResourceNotFoundException",
    "Lambda.ResourceNotReadyException",
    "Lambda.RuntimeAliasDeletedException",
    "Lambda.RuntimeVersionDeletedException",
    "Lambda.S3FilesMountConnectivityException",
    "Lambda.S3FilesMountFailureException",
    "Lambda.S3FilesMountTimeoutException",
    "Lambda.ServiceQuotaExceededException",
    "Lambda.SnapStartException",
    "Lambda.SnapStartNotReadyException",
    "Lambda.SnapStartRegenerationFailureException",
    "Lambda.SnapStartTimeoutException",
    "Lambda.SubnetIPAddressLimitReachedException",
)
"""Lambda API Reference, errors of Invoke; Step Functions reports each as `Lambda.ErrorName`."""
REQUEST = (
    "Lambda.DurableExecutionAlreadyStartedException",
    "Lambda.InvalidParameterValueException",
    "Lambda.InvalidRequestContentException",
    "Lambda.ModeNotSupportedException",
    "Lambda.NoPublishedVersionException",
    "Lambda.RequestTooLargeException",
    "Lambda.SerializedRequestEntityTooLargeException",
    "Lambda.UnsupportedMediaTypeException",
)
"""Errors of Invoke that are about the request: the same request fails again."""
NEVER_BEGUN = (
    "Runtime.HandlerNotFound",
    "Runtime.ImportModuleError",
    "Runtime.InvalidEntrypoint",
    "Runtime.InvalidWorkingDir",
    "Runtime.MalformedHandlerName",
    "Runtime.UserCodeSyntaxError",
)
"""The function's code cannot be loaded (`awslambdaric`; Lambda Developer Guide, Telemetry API)."""
DIED = (
    "Function.ResponseSizeTooLarge",
    "Lambda.Unknown",
    "Runtime.ExitError",
    "Runtime.MarshalError",
    "Runtime.Unknown",
    "Runtime.UnmarshalError",
    "Sandbox.Timedout",
)
"""The function began, and its end is unknown."""
MACHINE = (
    "States.BranchFailed",
    "States.DataLimitExceeded",
    "States.HeartbeatTimeout",
    "States.ParameterPathFailure",
    "States.Permissions",
    "States.ResultPathMatchFailure",
    "States.Runtime",
    "States.TaskFailed",
)
"""Step Functions Developer Guide, "Handling errors": the machine's own."""
ALL = frozenset({*STEP_FUNCTIONS, *INVOKE, *REQUEST, *NEVER_BEGUN, *DIED, *MACHINE})
