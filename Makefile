# Each target makes its own environment from nothing: a Python of 3.11 or newer is all that must be there.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
# Threads that spin while a server on the same cores answers make training several times slower.
export OMP_WAIT_POLICY := PASSIVE
export GOMP_SPINCOUNT := 0
# A run and the tests start many processes; without bytecode each compiles the library anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-fast test-long test-cluster test-vllm test-lmms test-kind test-of rehearse conformance lint docs reference bench bench-start bench-reward bench-overlap bench-grading bench-recaption bench-rubricrl bench-attacks bench-verifiers bench-rubric-audit bench-judge-trust bench-api bench-colocate coverage policy-aware noise-correction claims images locks audit release clean help

help:  ## What there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) install.py $(VENV) dev
	@touch $@ $(VENV)/demo

$(VENV)/demo: pyproject.toml constraints.txt
	@$(PYTHON) install.py $(VENV) demo
	@touch $@

demo: $(VENV)/demo  ## The whole loop on this machine: images in, a better captioner and a report out
	$(RUN) rubricworks.cli run quickstart $(ARGS)

# Tests share the cores already; two workers more than there are cores, since some wait for servers and processes.
test test-fast test-long test-of: export OMP_NUM_THREADS := 1
PYTEST = $(RUN) pytest --workers $$(($$(getconf _NPROCESSORS_ONLN) + 2))
OF_OTHERS := not cluster and not vllm and not lmms

test: $(VENV)/installed  ## Every test that guards a change (ten minutes)
	$(PYTEST) -m 'not long and $(OF_OTHERS)'

test-fast: $(VENV)/installed  ## The tests to run before a commit (two minutes)
	$(PYTEST) -m 'not slow and not long and $(OF_OTHERS)'

test-long: $(VENV)/installed  ## What only long runs show: recipes killed and resumed, FSDP (before a change of training code)
	$(PYTEST) -m long

test-of: $(VENV)/installed  ## The tests that concern a file: make test-of FILE=rubricworks/rewards/weighted.py
	$(PYTEST) -m 'not long and $(OF_OTHERS)' $$($(VENV)/bin/python tests/support/tests_of.py $(FILE))

test-cluster: $(VENV)/installed  ## What a cluster needs, against real servers and tools (Debian or Ubuntu; ten minutes)
	tests/cluster/install.sh
	$(PYTEST) -m cluster

# Compiled kernels stall the first requests, and several threads every one.
test-vllm:  ## What generates on GPUs, against vLLM itself on CPU cores (an environment of its own)
	PYTHON=$(PYTHON) tests/vllm_cpu/install.sh $(VENV)-vllm
	OMP_NUM_THREADS=1 TORCH_COMPILE_DISABLE=1 VLLM_CPU_OMP_THREADS_BIND=nobind HF_HUB_OFFLINE=1 \
	  $(VENV)-vllm/bin/python -m pytest -m vllm tests/vllm_cpu

test-lmms: $(VENV)/installed  ## General benchmarks by lmms-eval and ms-vlmeval themselves (environments of their own; twenty minutes at first)
	$(RUN) pytest -m lmms tests/lmms_eval --timeout 3000

test-kind:  ## The chart on a real control plane (docker, kind, kubectl, helm; after `make images`)
	tests/cluster/kind.sh

rehearse: $(VENV)/installed  ## The recipes of the papers at full size, in miniature (half an hour)
	for recipe in rubicap balcaprl rlr3 rubricrl-ar rubricrl-diffusion recaption-pretrain; do \
	  $(RUN) rubricworks.cli rehearse $$recipe $(ARGS) || exit 1; done

conformance: $(VENV)/installed  ## Reference cases of other implementations
	$(RUN) pytest tests/conformance -q

lint: $(VENV)/installed  ## Style and types
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy

docs: $(VENV)/installed  ## The pages of docs/ and of the library's docstrings, as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --quiet --strict

reference: $(VENV)/installed  ## The pages of docs/reference that are made from the code: recipes, commands, API, tables, chart
	$(VENV)/bin/python docs/generators

screenshots: $(VENV)/installed  ## The pictures of the web pages in docs/screenshots, of the runs in RUNS
	$(VENV)/bin/python docs/generators/screenshots.py $(RUNS)

bench: bench-start bench-reward bench-overlap bench-grading bench-recaption bench-rubricrl bench-attacks bench-verifiers bench-rubric-audit bench-judge-trust bench-api  ## Every benchmark

bench-start: $(VENV)/installed  ## Seconds to import, to --help, of a stage that is done
	$(RUN) benchmarks.start

bench-reward: $(VENV)/installed  ## What a rubric reward adds to a GRPO step
	$(RUN) benchmarks.reward

bench-overlap: $(VENV)/installed  ## Step time with judge calls that start as rollouts end, and without
	$(RUN) benchmarks.judge_overlap

bench-grading: $(VENV)/installed  ## Calls, criteria and images a second beside aiohttp, the OpenAI SDK and autorubric
	$(RUN) benchmarks.grading --install-peers

bench-recaption: $(VENV)/installed  ## CPU and memory of recaptioning 10,000 and 100,000 images, and kills
	$(RUN) benchmarks.recaption

bench-rubricrl: $(VENV)/installed  ## Grading an image in one call or ten beside aiohttp; a DiffusionNFT step beside diffusers
	$(RUN) benchmarks.image_grading
	$(RUN) benchmarks.diffusion_step

bench-attacks: $(VENV)/installed  ## What orders and fake verdicts in a caption do to each scripted judge
	$(RUN) benchmarks.attacks

bench-rubric-release: $(VENV)/installed  ## Wheel, source distribution and chart of one version in dist/, and the images of that version
	rm -rf dist
	$(RUN) build --outdir dist
	mkdir dist/chart
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@$$(git log -1 --format=%ct) \
	  -czf dist/chart/rubricworks-$$($(RUN) rubricworks.cli --version | grep -o '[0-9.]*$$').tgz -C charts rubricworks
	docker/build.sh

audit: $(VENV)/installed  ## Flags of `rubrics audit` against planted faults, three seeds
	PYTHONPATH=tests/support:tests/evaluation/rubric_audit $(RUN) benchmarks.rubric_audit

bench-judge-trust: $(VENV)/installed  ## Figures of docs/judge-trust.md in the scene world: cascade, calls, noise correction
	PYTHONPATH=tests/support:tests/rewards $(RUN) benchmarks.judge_trust

bench-api: $(VENV)/installed  ## Reads of the server on Postgres and Ceph with 100,000 runs, beside MLflow's (after `make test-cluster`)
	PYTHONPATH=tests/cluster:tests/support/servers $(RUN) benchmarks.api

bench-verifiers: $(VENV)/installed  ## Verifiers beside math-verify; hostile expressions from many threads
	$(RUN) benchmarks.verifiers
	$(RUN) benchmarks.hostile

bench-colocate:  ## The quickstart's policy by rollouts of vLLM, beside FINISHED=runs/quickstart-... (after `make test-vllm`; ten minutes)
	PYTHONPATH=$$(find tests/support -type d -not -name __pycache__ | paste -sd:) OMP_NUM_THREADS=1 \
	  TORCH_COMPILE_DISABLE=1 VLLM_CPU_OMP_THREADS_BIND=nobind HF_HUB_OFFLINE=1 \
	  $(VENV)-vllm/bin/python -m benchmarks.colocate $(FINISHED)

coverage: $(VENV)/installed  ## The table of coverage, guards, captions and rules in docs/world.md (an hour)
	$(RUN) benchmarks.coverage

policy-aware: $(VENV)/installed  ## Refill and pitfalls beside the plain reward: simulated policies, then students with three seeds (hours)
	$(RUN) benchmarks.behavioural_policy
	for seed in 1 2 3; do \
	  $(RUN) rubricworks.cli arms rubicap-laptop --table policy_aware --seed $$seed --runs runs/policy-aware \
	    --set 'evaluation.decodings=[greedy]' || exit 1; \
	done
	$(RUN) benchmarks.policy_aware runs/policy-aware

noise-correction: $(VENV)/installed  ## Rewards corrected for a judge's errors beside those of the judge as it is, with three seeds (an hour)
	for seed in 1 2 3; do \
	  run=runs/noise/seed-$$seed; arms="$(RUN) rubricworks.cli arms rubicap-laptop --seed $$seed --runs runs/noise"; \
	  $$arms --arm noisy --set 'evaluation.decodings=[greedy]' && \
	  $(RUN) benchmarks.rollout_labels $$run-noisy 400 > $$run-labels.csv && \
	  $(RUN) rubricworks.cli agreement $$run-labels.csv $$run-noisy/train_policy/scorecards \
	    --rubrics $$run-noisy/synthesize_rubrics --json judge-agreement.json && \
	  $$arms --table noise --set 'evaluation.decodings=[greedy]' || exit 1; \
	done
	$(RUN) benchmarks.policy_aware runs/noise

claims: $(VENV)/installed  ## Verdicts on the papers' registered claims in the scene world (hours; --dry-run says how many)
	$(RUN) rubricworks.cli claims --all

images:  ## The container images, with docker or podman: cpu, trainer, vllm, api (docs/images.md)
	docker/build.sh

locks: $(VENV)/installed  ## What the images install, locked anew from pyproject.toml and constraints.txt
	$(RUN) pip install --quiet --disable-pip-version-check uv==0.13.8
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" docker/lock.sh

audit: $(VENV)/installed  ## Known vulnerabilities of what the images install (ADVISORIES=URL of an OSV service; else PyPI's)
	@$(RUN) pip install --quiet --disable-pip-version-check --target build/pip-audit pip-audit==2.10.1
	@PYTHONPATH=build/pip-audit $(VENV)/bin/python docker/audit.py $(ADVISORIES)

clean:  ## Remove the environment and caches; runs/ stays
	rm -rf $(VENV) $(VENV)-vllm build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
