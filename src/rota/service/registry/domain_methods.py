"""The domains and private contracts of this node."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import Address
from rota.rpc.methods import method
from rota.rpc.query_json import QueryJson
from rota.service.contracts.interface import HasQuestions, QuestionParams, question_of
from rota.service.registry.interface import Domain, HasNetwork, SmartContract


@method("domain_listDomains", role=Role.READ, answers="names")
async def list_domains(node: HasNetwork) -> Annotated[list[str], Meta(description="Their names")]:
    """List the domains that are installed at this node."""
    return [*node.domains.names()]


@method("domain_getDomain", role=Role.READ, answers="domain")
async def get_domain(
    node: HasNetwork, name: Annotated[str, Meta(description="The name of a domain")]
) -> Annotated[Domain | None, Meta(description="The domain; null when it is not installed")]:
    """Return a domain, and the factory that deploys its contracts."""
    return node.domains.domain(name)


@method("domain_getDomainByAddress", role=Role.READ, answers="domain")
async def get_domain_by_address(
    node: HasNetwork, address: Annotated[Address, Meta(description="Of the factory, or of a private contract")]
) -> Annotated[Domain | None, Meta(description="The domain; null when nothing of ours is there")]:
    """Return a domain by its factory. All domains share one factory; its address returns the first of them."""
    return node.domains.domain_at(address.contract)


@method("domain_querySmartContracts", role=Role.READ, answers="contracts")
async def query_smart_contracts(
    node: HasNetwork, query: QueryJson
) -> Annotated[list[SmartContract], Meta(description="By their addresses, if no other order is asked for")]:
    """Query the private contracts of this node. Fields: address, domainName, domainAddress."""
    return [*node.domains.contracts(query)]


@method("domain_getSmartContractByAddress", role=Role.READ, answers="contract")
async def get_smart_contract(
    node: HasNetwork, address: Annotated[Address, Meta(description="Of the contract on the base ledger")]
) -> Annotated[SmartContract | None, Meta(description="The contract; null when this node does not have it")]:
    """Return a private contract of this node, with its configuration."""
    return node.domains.contract(address.contract)


@method("domain_invokeRPC", role=Role.READ, answers="result")
async def invoke_rpc(
    node: HasQuestions,
    contract_address: Annotated[Address, Meta(description="A private contract of this node")],
    method: Annotated[str, Meta(description="What the domain is asked, as noto_balanceOf; or available, see below")],
    params: QuestionParams = None,
) -> Annotated[Any, Meta(description="As the domain answers")]:  # noqa: ANN401
    """Call a method of a private contract's domain. The error for an unknown method lists the methods.

    Some clients send `available` or nothing as the second parameter, for the states that count, and `{method, params}`
    as the third.
    """
    return await node.questions.ask(contract_address.contract, *question_of(method, params))


METHODS: Final = (
    list_domains,
    get_domain,
    get_domain_by_address,
    query_smart_contracts,
    get_smart_contract,
    invoke_rpc,
)
