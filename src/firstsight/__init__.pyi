# isort: skip_file
# The whole public face: lazy_loader imports from here what is asked for, type checkers read it.
from .experiments.benchmark import benchmark as benchmark
from .evaluation.calibration import Calibration as Calibration
from .evaluation.calibration import calibrate as calibrate
from .data import AuditReport as AuditReport
from .data import ZeroShotDataset as ZeroShotDataset
from .data import audit as audit
from .data import load_dataset as load_dataset
from .data import make_dataset as make_dataset
from .encoders.descriptions import describe as describe
from .encoders.embedding import embed as embed
from .errors import BadInput as BadInput
from .errors import CannotWrite as CannotWrite
from .errors import FirstsightError as FirstsightError
from .errors import FirstsightWarning as FirstsightWarning
from .errors import StaleCheckpoint as StaleCheckpoint
from .errors import UnknownName as UnknownName
from .errors import UnreadableFile as UnreadableFile
from .evaluation import Result as Result
from .evaluation import evaluate as evaluate
from .methods import TransductiveClassifier as TransductiveClassifier
from .methods import ZeroShotClassifier as ZeroShotClassifier
from .methods import all_methods as all_methods
from .methods import find_method as find_method

# methods: begin (tools/stubs.py writes these lines; `make format` runs it)
from .methods.ale import ALE as ALE
from .methods.blend import Blend as Blend
from .methods.clap import CLAP as CLAP
from .methods.cmt import CMT as CMT
from .methods.conse import ConSE as ConSE
from .methods.cosine import Cosine as Cosine
from .methods.dap import DAP as DAP
from .methods.deep_embedding import DeepEmbedding as DeepEmbedding
from .methods.dem import DEM as DEM
from .methods.devise import DeViSE as DeViSE
from .methods.eszsl import ESZSL as ESZSL
from .methods.gda import GDA as GDA
from .methods.gfzsl import GFZSL as GFZSL
from .methods.iap import IAP as IAP
from .methods.kernel_prototypes import KernelPrototypes as KernelPrototypes
from .methods.latem import LatEm as LatEm
from .methods.psr import PSR as PSR
from .methods.qfsl import QFSL as QFSL
from .methods.rn import RN as RN
from .methods.sae import SAE as SAE
from .methods.sje import SJE as SJE
from .methods.sse import SSE as SSE
from .methods.stata import StatA as StatA
from .methods.sync import SynC as SynC
from .methods.tip_adapter import TipAdapter as TipAdapter
from .methods.transclip import TransCLIP as TransCLIP
from .methods.transductive_blend import TransductiveBlend as TransductiveBlend
from .methods.transductive_deep_embedding import TransductiveDeepEmbedding as TransductiveDeepEmbedding
from .methods.transductive_kernel_prototypes import TransductiveKernelPrototypes as TransductiveKernelPrototypes
from .methods.zlap import ZLaP as ZLaP
# methods: end

from .persistence import add_classes as add_classes
from .persistence import load as load
from .persistence import load_pipeline as load_pipeline
from .persistence import remove_classes as remove_classes
from .persistence import save as save
from .recognition import Answers as Answers
from .recognition import Recognizer as Recognizer
from .recognition import fit as fit
from .recognition import learn as learn
from .experiments.records import read_records as read_records
from .reporting import report as report
from .serving import create_app as create_app
from .serving import serve as serve
from .experiments.tune import Choice as Choice
from .experiments.tune import tune as tune
from .experiments.tune import tune_all as tune_all

__version__: str
