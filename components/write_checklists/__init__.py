from rubricworks.components.write_checklists.component import write_checklists

__all__ = ["write_checklists"]
