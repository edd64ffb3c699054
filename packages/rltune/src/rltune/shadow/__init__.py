"""What a controller that only watched would have won: a report from its journal, as text and as a page."""

from rltune.shadow.shadow_report import ShadowReport, shadow_report

__all__ = ["ShadowReport", "shadow_report"]
