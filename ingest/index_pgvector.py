"""Decides how vectors are kept and searched in a PostgreSQL with pgvector, for those who outgrow one machine.

The server holds a copy as the file does: each base has a table of its own there, with the state that it is of, and is
made anew where it is not believed. Searches are exact, the server going through all that is allowed, until somebody
makes an index on the table there (`USING hnsw (vector vector_ip_ops)`). Measured with 100,000 passages, work of the
server: 38 ms exact, 9 ms with such an index, which found 99 % of the 200 nearest and all of the first ten; FAISS here
takes 2 ms. Chosen before Qdrant because the tests can start its real server, and people have a PostgreSQL already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ingest.document import IngestError
from ingest.embed import Vectors
from ingest.index import Ids, IndexState, VectorIndex

if TYPE_CHECKING:
    from psycopg import Connection

Given = TypeVar("Given")
_CONNECTS_WITHIN_S = 5
_STATES = "readonce_indexes"


class PgvectorHome:
    """Obeys `ingest.index.IndexHome`.

    Args:
        address: "postgresql://user:password@host/database".
    """

    def __init__(self, address: str) -> None:
        self._server = _Server(address)

    def load(self, base: str) -> VectorIndex | None:
        state = _state(self._server, base)
        return None if state is None else PgvectorIndex(self._server, state)

    def new(self, state: IndexState) -> VectorIndex:
        table = _table(state.base)
        self._server.do(f"DROP TABLE IF EXISTS {table}")
        self._server.do(f"CREATE TABLE {table} (id bigint PRIMARY KEY, vector vector({int(state.dimension)}) NOT NULL)")
        self._server.do(
            f"""INSERT INTO {_STATES} VALUES (%s, %s, %s, %s) ON CONFLICT (base) DO UPDATE SET
                generation = excluded.generation, embedder = excluded.embedder, dimension = excluded.dimension""",
            state.base,
            state.generation,
            state.embedder,
            state.dimension,
        )
        return PgvectorIndex(self._server, state)

    def keep(self, index: VectorIndex, num_added: int, num_removed: int) -> None:
        """Nothing is left to do: the server has it all, the generation last. What a crash cuts off is made up for."""


class PgvectorIndex:
    """Obeys `ingest.index.VectorIndex`. Other processes may use the same table."""

    def __init__(self, server: _Server, state: IndexState) -> None:
        self._server = server
        self._made_for = state
        self._table = _table(state.base)

    @property
    def state(self) -> IndexState:
        # Where somebody has cleared the server, a state that is never wanted has the index made anew.
        return _state(self._server, self._made_for.base) or replace(self._made_for, embedder="")

    @property
    def ids(self) -> Ids:
        return np.array([row[0] for row in self._server.rows(f"SELECT id FROM {self._table}")], dtype=np.int64)

    def __len__(self) -> int:
        row = self._server.row(f"SELECT count(*) FROM {self._table}")
        return int(row[0]) if row else 0

    def add(self, ids: Ids, vectors: Vectors) -> None:
        if len(ids):
            self._server.use(lambda connection: _copy(connection, self._table, ids, vectors))

    def remove(self, ids: Ids) -> int:
        if not len(ids):
            return 0
        return len(self._server.rows(f"DELETE FROM {self._table} WHERE id = ANY(%s) RETURNING id", ids.tolist()))

    def moved_to(self, generation: int) -> None:
        self._server.do(f"UPDATE {_STATES} SET generation = %s WHERE base = %s", generation, self._made_for.base)

    def search(self, vector: Vectors, k: int, allowed: Ids | None = None) -> list[tuple[int, float]]:
        if k < 1:
            return []
        only, values = ("", []) if allowed is None else ("WHERE id = ANY(%s)", [allowed.tolist()])
        question = vector.astype(np.float32)
        # <#> is the inner product with its sign turned; ordered by it alone, an index on it may serve.
        rows = self._server.rows(
            f"SELECT id, -(vector <#> %s) FROM {self._table} {only} ORDER BY vector <#> %s LIMIT %s",
            question,
            *values,
            question,
            k,
        )
        return sorted(((int(id_), float(cosine)) for id_, cosine in rows), key=lambda hit: (-hit[1], hit[0]))

    def vectors(self, ids: Ids) -> tuple[Ids, Vectors]:
        rows = self._server.rows(f"SELECT id, vector FROM {self._table} WHERE id = ANY(%s)", ids.tolist())
        found = np.array([row[0] for row in rows], dtype=np.int64)
        stacked = np.array([row[1].to_numpy() for row in rows], dtype=np.float32)
        return found, stacked.reshape(len(rows), self._made_for.dimension)


class _Server:
    """A connection that is made when first needed, and again after it broke."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection: Connection[Any] | None = None

    def row(self, query: str, *values: object) -> tuple[Any, ...] | None:
        return next(iter(self.rows(query, *values)), None)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self.use(lambda connection: connection.execute(query.encode(), values).fetchall())

    def do(self, query: str, *values: object) -> None:
        self.use(lambda connection: connection.execute(query.encode(), values))

    def use(self, ask: Callable[[Connection[Any]], Given]) -> Given:
        """Asks once, and once more on a new connection where an old one had broken.

        Raises:
            IngestError: `index_missing`, `index_unreachable`, `index_failed`.
        """
        try:
            import psycopg
            from pgvector.psycopg import register_vector
        except ImportError as error:
            raise IngestError(
                "index_missing",
                f"The vector index is to be in PostgreSQL, and its client is missing ({error}): run `pip install"
                " 'readonce[pgvector]'`, or set vector_index to faiss.",
            ) from error
        was_open = self._connection is not None
        try:
            if self._connection is None or self._connection.closed:
                was_open = False
                made = psycopg.connect(self._address, autocommit=True, connect_timeout=_CONNECTS_WITHIN_S)
                made.execute("CREATE EXTENSION IF NOT EXISTS vector")
                made.execute(
                    f"""CREATE TABLE IF NOT EXISTS {_STATES} (base text PRIMARY KEY, generation bigint NOT NULL,
                        embedder text NOT NULL, dimension integer NOT NULL)""".encode()
                )
                register_vector(made)
                # Where there is an index, it goes on until it has as many as are wanted.
                made.execute("SET hnsw.iterative_scan = strict_order")
                made.execute("SET hnsw.ef_search = 400")
                self._connection = made
            return ask(self._connection)
        except psycopg.OperationalError as error:
            if was_open and self._connection is not None and self._connection.closed:
                return self.use(ask)
            raise IngestError(
                "index_unreachable",
                f"The vector index's PostgreSQL can't be used ({_first_line(error)}): start it, correct its address, or"
                " set vector_index to faiss.",
            ) from error
        except psycopg.Error as error:
            raise IngestError(
                "index_failed",
                f"The vector index's PostgreSQL refuses ({_first_line(error)}): it needs the extension vector, 0.8 or"
                " later, and the right to make tables; or set vector_index to faiss.",
            ) from error


def _table(base: str) -> str:
    """A base's name is hexadecimal digits, made by the store; anything else is never put into a statement."""
    if not base.isalnum() or not base.isascii():
        raise IngestError("store_damaged", f"The base is called {base!r}, which no store does: restore it.")
    return f"readonce_{base}"


def _state(server: _Server, base: str) -> IndexState | None:
    row = server.row(
        f"SELECT generation, embedder, dimension FROM {_STATES} WHERE base = %s AND to_regclass(%s) IS NOT NULL",
        base,
        _table(base),
    )
    return None if row is None else IndexState(base, *row)


def _copy(connection: Connection[Any], table: str, ids: Ids, vectors: Vectors) -> None:
    """In bulk, through a table of this connection's own: another process may be adding the same ids."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMP TABLE coming (LIKE {table}) ON COMMIT DROP".encode())
        with cursor.copy("COPY coming (id, vector) FROM STDIN WITH (FORMAT BINARY)") as copy:
            copy.set_types(["int8", "vector"])
            for id_, vector in zip(ids.tolist(), vectors.astype(np.float32), strict=True):
                copy.write_row((id_, vector))
        cursor.execute(f"INSERT INTO {table} SELECT * FROM coming ON CONFLICT DO NOTHING".encode())


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
