"""The app of the programs."""

from iworkflow.core import AppDefinition
from iworkflow_lab.programs.interpreter import interpret
from iworkflow_lab.programs.settled import PATCH, settle
from iworkflow_lab.programs.steps import bad, effect, flaky, hang, plain

APP = f"{__name__}:app"

app = AppDefinition(
    "programs",
    flows=[interpret, settle],
    activities=[effect, plain, flaky, bad, hang],
    patches=[PATCH],
    max_concurrent_steps=500,
)
