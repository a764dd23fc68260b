"""A resources server of NeMo Gym: copy it to resources_servers/rubric/app.py; its configuration names the judges."""

from rubricworks.adapters.nemo_gym import RubricResourcesServer

if __name__ == "__main__":
    RubricResourcesServer.run_webserver()
