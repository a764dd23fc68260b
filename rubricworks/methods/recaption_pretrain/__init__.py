"""Recaptioning for VLM pretraining (RubiCap, section 4.6): the LLaVA-NeXT recipe on two captioners' captions."""
