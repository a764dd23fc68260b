"""One wheel: what sits at the top for people is installed below `rubricworks`, such as `rubricworks.components`."""

from setuptools import find_namespace_packages, setup

AT_THE_TOP = ("components", "pipelines", "platform_api", "recipes")


def packages(folder: str, name: str) -> list[str]:
    return [name, *(f"{name}.{inner}" for inner in find_namespace_packages(folder))]


setup(
    packages=packages("rubricworks", "rubricworks")
    + [package for folder in AT_THE_TOP for package in packages(folder, f"rubricworks.{folder}")],
    package_dir={"rubricworks": "rubricworks"} | {f"rubricworks.{folder}": folder for folder in AT_THE_TOP},
)
