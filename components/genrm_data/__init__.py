from rubricworks.components.genrm_data.component import genrm_data

__all__ = ["genrm_data"]
