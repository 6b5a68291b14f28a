"""`slurmgpu schema`."""

import click

from slurmgpu.commands.output import write


@click.command(short_help="Print the JSON Schema of a spec.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write the schema here instead of stdout.")
def command(output: str | None) -> None:
    """Print the JSON Schema of a spec, for an editor that completes and checks YAML.

    \b
    Examples:
      slurmgpu schema -o ~/.config/slurmgpu/spec.schema.json
      # then, as the first line of a spec:
      # yaml-language-server: $schema=~/.config/slurmgpu/spec.schema.json
    """
    import json

    from slurmgpu.experiment.schema import schema

    write(json.dumps(schema(), indent=2) + "\n", output)
