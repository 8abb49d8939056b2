"""
Print the files with which tools of vendors implement a circuit: constraints, scripts, and IP-XACT.

The texts with placeholders are in `board/`. The scripts implement the circuit without pins, and end
with exit status 1 if the clock is not reached. The top module is a component of a larger design:
`component.xml` describes its ports in IP-XACT (IEEE 1685-2009), as the catalog of Vivado reads it.
"""

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from xml.sax.saxutils import escape

from ceras_ir.backends.dataflow.board import DataflowBoard
from ceras_ir.backends.dataflow.verilog import TOP_MODULE

PLACEHOLDER = re.compile(r"@(\w+)@")
COMPONENT_FILE = "component.xml"
SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
PORT = re.compile(r"(input|output) logic (?:\[(\d+):0\] )?(\w+)")
STREAM_PORTS = ("tdata", "tlast", "tvalid", "tready")


def script_files(board: DataflowBoard) -> dict[str, str]:
    """Return the constraints and scripts for a board by file name. The period is in ns."""
    values = {
        "PERIOD": f"{1000 / board.clock_mhz:.3f}",
        "MHZ": str(board.clock_mhz),
        "PART": board.part,
        "TOP": TOP_MODULE,
    }
    found = sorted(
        (files("ceras_ir.backends.dataflow") / "board").iterdir(), key=lambda file: file.name
    )
    return {
        file.name: PLACEHOLDER.sub(lambda m: values[m[1]], file.read_text(encoding="utf-8"))
        for file in found
    }


def component(top: str, names: Iterable[str]) -> str:
    """
    Return the IP-XACT description of the top module with the text `top`. `names` has the files of
    the project; sources and memory contents are listed.
    """
    header = top[top.index(f"module {TOP_MODULE}") : top.index(");")]
    ports = [(m[1][:-3], int(m[2] or 0), m[3]) for m in PORT.finditer(header)]
    streams = [name.removesuffix("_tvalid") for _, _, name in ports if name.endswith("_tvalid")]
    buses = [_stream(name) for name in streams]
    associated = _parameter("ASSOCIATED_BUSIF", ":".join(streams)) + _parameter(
        "ASSOCIATED_RESET", "rst"
    )
    buses.append(_bus("clk", "signal", "clock", {"CLK": "clk"}, associated))
    polarity = _parameter("POLARITY", "ACTIVE_HIGH")
    buses.append(_bus("rst", "signal", "reset", {"RST": "rst"}, polarity))
    listed = "".join(_file(name) for name in sorted(names) if name.endswith((".sv", ".mem")))
    view = (
        "<view><name>synthesis</name><envIdentifier>:vivado.xilinx.com:synthesis</envIdentifier>"
        f"<language>systemVerilog</language><modelName>{TOP_MODULE}</modelName>"
        "<fileSetRef><localName>sources</localName></fileSetRef></view>"
    )
    body = (
        f"<vendor>ceras</vendor><library>dataflow</library><name>{TOP_MODULE}</name>"
        f"<version>1.0</version><busInterfaces>{''.join(buses)}</busInterfaces>"
        f"<model><views>{view}</views><ports>{''.join(_port(*port) for port in ports)}</ports>"
        f"</model><fileSets><fileSet><name>sources</name>{listed}</fileSet></fileSets>"
    )
    body = re.sub(r"<(/?)(\w+)", r"<\1spirit:\2", body)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<spirit:component xmlns:spirit="{SPIRIT}">{_lines(body)}\n</spirit:component>\n'
    )


def _lines(body: str) -> str:
    # A line for each bus, port and file.
    return re.sub(r"(<spirit:(?:busInterface|view|port|fileSet|file|vendor)>)", r"\n\1", body)


def _stream(name: str) -> str:
    ports = {part.upper(): f"{name}_{part}" for part in STREAM_PORTS}
    return _bus(name, "interface", "axis", ports, is_master=name.startswith("m_"))


def _bus(
    name: str,
    library: str,
    kind: str,
    ports: Mapping[str, str],
    parameters: str = "",
    *,
    is_master: bool = False,
) -> str:
    found = "".join(
        f"<portMap><logicalPort><name>{logical}</name></logicalPort>"
        f"<physicalPort><name>{physical}</name></physicalPort></portMap>"
        for logical, physical in ports.items()
    )
    types = "".join(
        f'<{tag} spirit:vendor="xilinx.com" spirit:library="{library}" '
        f'spirit:name="{kind}{end}" spirit:version="1.0"/>'
        for tag, end in (("busType", ""), ("abstractionType", "_rtl"))
    )
    more = f"<parameters>{parameters}</parameters>" if parameters else ""
    return (
        f"<busInterface><name>{name}</name>{types}<{'master' if is_master else 'slave'}/>"
        f"<portMaps>{found}</portMaps>{more}</busInterface>"
    )


def _parameter(name: str, value: str) -> str:
    return f"<parameter><name>{name}</name><value>{escape(value)}</value></parameter>"


def _port(direction: str, high: int, name: str) -> str:
    width = f"<vector><left>{high}</left><right>0</right></vector>" if high else ""
    return f"<port><name>{name}</name><wire><direction>{direction}</direction>{width}</wire></port>"


def _file(name: str) -> str:
    kind = (
        "<fileType>systemVerilogSource</fileType>"
        if name.endswith(".sv")
        else "<userFileType>mem</userFileType>"
    )
    return f"<file><name>{name}</name>{kind}</file>"
